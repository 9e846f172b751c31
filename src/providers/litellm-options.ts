import { defaultBodyLimits } from '../body-limits.ts';
import { type Clock, type LLMCapabilities, systemClock } from '../core/contracts/index.ts';
import {
  aBoolean,
  aClock,
  aFunction,
  anything,
  assertGiven,
  assertOptions,
  milliseconds,
  type OptionRule,
  type OptionRules,
  oneOf,
  wholeNumber,
  wrongOption,
} from '../options/option-rules.ts';
import { capabilityWords, checkedBaseUrl, checkedHeaders, checkedKey, wrongCapability } from './connection-options.ts';
import type { ChatDialect } from './openai-wire/chat-request.ts';
import type { Fetch } from './openai-wire/openai-client.ts';
import type { RequestLimits } from './openai-wire/request-watch.ts';
import { isJsonObject } from './openai-wire/wire-errors.ts';
import { type Profile, type ProfileName, profileNames, profileOf, withResultMedia } from './profiles.ts';

/** Options of `LiteLLMProvider`: address, model and key of the API, its time limits, and what a request carries. */
export interface LiteLLMProviderOptions {
  /** Where the API is, up to what stands before `/chat/completions`: `http://localhost:4000/v1`. */
  readonly baseUrl: string;
  /** As the server names it. */
  readonly model: string;
  /** Sent as a bearer token. Absent: none is sent; the environment is not asked for one. */
  readonly apiKey?: string | undefined;
  /** Sent with each request. Their values are treated as secrets. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /**
   * The most that one request may take, from its start to the last byte, in milliseconds. Default 600,000; 0 means no limit.
   * Node's own `fetch` gives up after 300,000 without headers, which also ends as `PROVIDER_TIMEOUT`.
   */
  readonly timeoutMs?: number | undefined;
  /**
   * The longest silence between two pieces of the body, from the headers on, in milliseconds. Default 290,000; 0 means no
   * limit. Comments and pings of the server end a silence. Node's own `fetch` ends it after 300,000, so a larger value has no effect.
   */
  readonly chunkTimeoutMs?: number | undefined;
  /** The most that an answer may be, decompressed, in bytes. Default 32 MiB. */
  readonly maxBodyBytes?: number | undefined;
  /** The most that one event of a stream may be, in bytes. Default 4 MiB. */
  readonly maxEventBytes?: number | undefined;
  /** OpenTelemetry's `gen_ai.provider.name`. Default `litellm`. */
  readonly providerName?: string | undefined;
  /** What the model cannot do. Without `tools`, calls and results in the history are sent as text. */
  readonly capabilities?: LLMCapabilities | undefined;
  /**
   * Whose rules a request must satisfy, such as `vllm`, `litellm` or `mistral`. Default: by the host of `baseUrl`; for a host that is not
   * known, what every known server takes, with the rules of the model.
   */
  readonly profile?: ProfileName | undefined;
  /** The tag in which the model puts its reasoning into the text, such as `think`: it is read as reasoning. Default: the text stays as it is. */
  readonly reasoningTag?: string | undefined;
  /** Whether reasoning goes back, beside the calls that it led to, to a server that gave it. Default true. */
  readonly sendReasoning?: boolean | undefined;
  /** Where pictures and files of tool results go: `result`, or `message`, a user message after the batch. Default: by the profile. */
  readonly toolMedia?: 'result' | 'message' | undefined;
  /** OpenAI's own reasoning models want `max_completion_tokens`; LiteLLM translates. Default: by the profile. */
  readonly maxTokensField?: 'max_tokens' | 'max_completion_tokens' | undefined;
  /**
   * Sends the reasoning of messages with tool calls under this name, whoever gave it. Default: the server that gave reasoning gets it back under
   * the name that it had there.
   */
  readonly reasoningField?: 'reasoning_content' | 'reasoning' | undefined;
  /** Asks for usage in streams (`stream_options`). False for a server that refuses that. Default true. */
  readonly includeUsage?: boolean | undefined;
  /** Sends the call's `metadata` along, where LiteLLM takes tags and trace ids. OpenAI refuses it. Default false. */
  readonly sendMetadata?: boolean | undefined;
  /**
   * Sends the trace context in the headers. False where an instrumentation of `fetch` does it too: two `traceparent` headers
   * are as good as none. Default true.
   */
  readonly propagateTrace?: boolean | undefined;
  /** More members of the request body, e.g. `{ reasoning_effort: 'low' }`. Parameters of the call win over them. */
  readonly extraBody?: Readonly<Record<string, unknown>> | undefined;
  /** Replaces the global `fetch`, e.g. to go through a proxy. Must honour `signal`. */
  readonly fetch?: Fetch | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

/** The options, checked and complete. */
export interface LiteLLMSettings {
  readonly url: URL;
  readonly apiKey: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly providerName: string;
  readonly capabilities: LLMCapabilities;
  readonly limits: RequestLimits;
  readonly dialect: Omit<ChatDialect, 'rules'>;
  readonly profileOf: (model: string) => Profile;
  readonly reasoningTag: string | undefined;
  readonly propagateTrace: boolean;
  readonly fetch: Fetch | undefined;
  readonly clock: Clock;
}

const wholeMs: OptionRule = {
  fits: (value) => Number.isInteger(value) && milliseconds(0).fits(value),
  must: `${milliseconds(0).must} without a fraction`,
  cure: '0 means no limit',
};
const someName: OptionRule = {
  fits: (value) => typeof value === 'string' && value.trim() !== '',
  must: 'be a string that is not empty',
};

const owner = 'LiteLLMProvider';
const rules: OptionRules<LiteLLMProviderOptions> = {
  baseUrl: anything,
  model: someName,
  apiKey: anything,
  headers: anything,
  timeoutMs: wholeMs,
  chunkTimeoutMs: wholeMs,
  maxBodyBytes: wholeNumber(1),
  maxEventBytes: wholeNumber(1),
  providerName: someName,
  capabilities: anything,
  profile: oneOf(...profileNames),
  reasoningTag: {
    fits: (value) => typeof value === 'string' && /^[\w-]{1,40}$/.test(value),
    must: 'be the name of a tag, such as think',
  },
  sendReasoning: aBoolean,
  toolMedia: oneOf('result', 'message'),
  maxTokensField: oneOf('max_tokens', 'max_completion_tokens'),
  reasoningField: oneOf('reasoning_content', 'reasoning'),
  includeUsage: aBoolean,
  sendMetadata: aBoolean,
  propagateTrace: aBoolean,
  extraBody: anything,
  fetch: aFunction,
  clock: aClock,
};

/** Errors with `INVALID_CONFIG` at the first option that is wrong. Never shows the value of a key or a header. */
export function litellmSettings(options: LiteLLMProviderOptions): LiteLLMSettings {
  assertOptions(owner, options, rules);
  assertGiven(owner, 'model', options.model, 'give the name that the server has for it');
  const capabilities = checkedCapabilities(options.capabilities ?? {});
  return {
    url: checkedBaseUrl(owner, options.baseUrl),
    apiKey: options.apiKey === undefined ? undefined : checkedKey(owner, options.apiKey),
    headers: checkedHeaders(owner, options.headers ?? {}),
    providerName: options.providerName ?? 'litellm',
    capabilities,
    limits: {
      timeoutMs: options.timeoutMs ?? 600_000,
      chunkTimeoutMs: options.chunkTimeoutMs ?? 290_000,
      maxBodyBytes: options.maxBodyBytes ?? defaultBodyLimits.maxBodyBytes,
      maxEventBytes: options.maxEventBytes ?? defaultBodyLimits.maxEventBytes,
    },
    dialect: {
      model: options.model,
      maxTokensField: options.maxTokensField,
      reasoningField: options.reasoningField,
      includeUsage: options.includeUsage ?? true,
      sendMetadata: options.sendMetadata ?? false,
      extraBody: checkedExtraBody(options.extraBody),
    },
    profileOf: (model) => withOptions(profileOf({ name: options.profile, address: options.baseUrl, model }), options),
    reasoningTag: options.reasoningTag,
    propagateTrace: options.propagateTrace ?? true,
    fetch: options.fetch,
    clock: options.clock ?? systemClock,
  };
}

function withOptions(profile: Profile, { toolMedia, sendReasoning }: LiteLLMProviderOptions): Profile {
  const { name, rules } = withResultMedia(profile, toolMedia);
  return { name, rules: { ...rules, ...(sendReasoning !== undefined && { reasoningBack: sendReasoning }) } };
}

function checkedCapabilities(capabilities: LLMCapabilities): LLMCapabilities {
  if (!isJsonObject(capabilities))
    throw wrongOption(owner, `capabilities must be an object whose members are ${capabilityWords}`);
  const wrong = wrongCapability(capabilities);
  if (wrong !== undefined) throw wrongOption(owner, `capabilities.${wrong} must be ${capabilityWords}`);
  return capabilities;
}

function checkedExtraBody(value: unknown): Readonly<Record<string, unknown>> | undefined {
  if (value === undefined) return undefined;
  if (!isJsonObject(value)) throw wrongOption(owner, 'extraBody must be an object');
  const ours = ['model', 'messages', 'stream', 'stream_options', 'tools'].find((name) => name in value);
  if (ours !== undefined) throw wrongOption(owner, `extraBody.${ours} is set by the provider: leave it out`);
  return value;
}

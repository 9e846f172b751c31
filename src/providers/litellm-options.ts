import { type AgentLoopError, type Clock, type LLMCapabilities, systemClock } from '../core/contracts/index.ts';
import { defaultBodyLimits } from '../core/model-call/index.ts';
import { capabilityWords, checkedBaseUrl, checkedHeaders, checkedKey, wrongCapability } from './connection-options.ts';
import type { ChatDialect } from './openai-wire/chat-request.ts';
import type { Fetch } from './openai-wire/openai-client.ts';
import type { RequestLimits } from './openai-wire/request-watch.ts';
import { isJsonObject } from './openai-wire/wire-errors.ts';
import { wrongOption } from './policies/policy-options.ts';

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
   * The longest silence between two pieces of the body, from the headers on, in milliseconds. Default 60,000; 0 means no
   * limit. Raise it for a model that thinks for longer without a word.
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
  /** OpenAI's own reasoning models want `max_completion_tokens`; LiteLLM translates. Default `max_tokens`. */
  readonly maxTokensField?: 'max_tokens' | 'max_completion_tokens' | undefined;
  /**
   * Sends the reasoning of messages with tool calls back under this name. DeepSeek's and Moonshot's thinking models refuse a
   * history without `reasoning_content`; others refuse one with it. Default: not sent.
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
  readonly dialect: ChatDialect;
  readonly propagateTrace: boolean;
  readonly fetch: Fetch | undefined;
  readonly clock: Clock;
}

const known: Readonly<Record<keyof LiteLLMProviderOptions, true>> = {
  baseUrl: true,
  model: true,
  apiKey: true,
  headers: true,
  timeoutMs: true,
  chunkTimeoutMs: true,
  maxBodyBytes: true,
  maxEventBytes: true,
  providerName: true,
  capabilities: true,
  maxTokensField: true,
  reasoningField: true,
  includeUsage: true,
  sendMetadata: true,
  propagateTrace: true,
  extraBody: true,
  fetch: true,
  clock: true,
};

/** Errors with `INVALID_CONFIG` at the first option that is wrong. Never shows the value of a key or a header. */
export function litellmSettings(options: LiteLLMProviderOptions): LiteLLMSettings {
  checkNames(options);
  checkFlags(options);
  const capabilities = checkedCapabilities(options.capabilities ?? {});
  return {
    url: checkedBaseUrl(owner, options.baseUrl),
    apiKey: options.apiKey === undefined ? undefined : checkedKey(owner, options.apiKey),
    headers: checkedHeaders(owner, options.headers ?? {}),
    providerName: checkedText('providerName', options.providerName ?? 'litellm'),
    capabilities,
    limits: {
      timeoutMs: checkedMs('timeoutMs', options.timeoutMs ?? 600_000),
      chunkTimeoutMs: checkedMs('chunkTimeoutMs', options.chunkTimeoutMs ?? 60_000),
      maxBodyBytes: checkedBytes('maxBodyBytes', options.maxBodyBytes ?? defaultBodyLimits.maxBodyBytes),
      maxEventBytes: checkedBytes('maxEventBytes', options.maxEventBytes ?? defaultBodyLimits.maxEventBytes),
    },
    dialect: {
      model: checkedText('model', options.model),
      tools: capabilities.tools !== false,
      toolChoice: capabilities.toolChoice !== false,
      maxTokensField: oneOf('maxTokensField', options.maxTokensField ?? 'max_tokens', [
        'max_tokens',
        'max_completion_tokens',
      ]),
      reasoningField: oneOf('reasoningField', options.reasoningField, [undefined, 'reasoning_content', 'reasoning']),
      includeUsage: options.includeUsage ?? true,
      sendMetadata: options.sendMetadata ?? false,
      extraBody: checkedExtraBody(options.extraBody),
    },
    propagateTrace: options.propagateTrace ?? true,
    fetch: options.fetch,
    clock: options.clock ?? systemClock,
  };
}

const owner = 'LiteLLMProvider';

function invalid(option: string, cure: string): AgentLoopError {
  return wrongOption(owner, `${option} ${cure}`);
}

function checkNames(options: LiteLLMProviderOptions): void {
  if (!isJsonObject(options)) throw invalid('the options', 'must be an object with at least baseUrl and model');
  const stranger = Object.keys(options).find((name) => !(name in known));
  if (stranger !== undefined)
    throw invalid(stranger, `is not an option; the options are ${Object.keys(known).join(', ')}`);
}

function checkFlags(options: LiteLLMProviderOptions): void {
  for (const name of ['includeUsage', 'sendMetadata', 'propagateTrace'] as const) {
    const value: unknown = options[name];
    if (value !== undefined && typeof value !== 'boolean') throw invalid(name, 'must be true or false');
  }
  if (options.fetch !== undefined && typeof options.fetch !== 'function') throw invalid('fetch', 'must be a function');
}

function checkedText(name: string, value: unknown): string {
  if (typeof value !== 'string' || value.trim() === '') throw invalid(name, 'must be a string that is not empty');
  return value;
}

function checkedCapabilities(capabilities: LLMCapabilities): LLMCapabilities {
  if (!isJsonObject(capabilities))
    throw invalid('capabilities', `must be an object whose members are ${capabilityWords}`);
  const wrong = wrongCapability(capabilities);
  if (wrong !== undefined) throw invalid(`capabilities.${wrong}`, `must be ${capabilityWords}`);
  return capabilities;
}

const longestTimer = 2 ** 31 - 1;

function checkedMs(name: string, value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= longestTimer) return value;
  throw invalid(name, `must be a whole number of milliseconds from 0 (no limit) to ${longestTimer}`);
}

function checkedBytes(name: string, value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && value > 0) return value;
  throw invalid(name, 'must be a whole number of bytes, 1 or more');
}

function oneOf<const T extends string | undefined>(name: string, value: T, allowed: readonly T[]): T {
  if (allowed.includes(value)) return value;
  throw invalid(name, `must be one of ${allowed.filter((one) => one !== undefined).join(', ')}`);
}

function checkedExtraBody(value: unknown): Readonly<Record<string, unknown>> | undefined {
  if (value === undefined) return undefined;
  if (!isJsonObject(value)) throw invalid('extraBody', 'must be an object');
  const ours = ['model', 'messages', 'stream', 'stream_options', 'tools'].find((name) => name in value);
  if (ours !== undefined) throw invalid(`extraBody.${ours}`, 'is set by the provider: leave it out');
  return value;
}

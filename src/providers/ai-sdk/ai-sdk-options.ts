import { defaultBodyLimits } from '../../body-limits.ts';
import {
  AgentLoopError,
  type Clock,
  type LLMCapabilities,
  type LLMProviderInfo,
  systemClock,
} from '../../core/contracts/index.ts';
import {
  aBoolean,
  aClock,
  aFunction,
  aName,
  anything,
  assertOptions,
  milliseconds,
  type OptionRule,
  type OptionRules,
  oneOf,
  someStrings,
  wholeNumber,
} from '../../options/option-rules.ts';
import { capabilityWords, serverOf, wrongCapability } from '../connection-options.ts';
import { keepLatest } from '../keep-latest.ts';
import type { RequestLimits } from '../openai-wire/request-watch.ts';
import { isJsonObject } from '../openai-wire/wire-errors.ts';
import { type Profile, profileOf, withResultMedia } from '../profiles.ts';
import { type AISDKModel, interfaceVersions } from './model-interface.ts';
import type { SdkProviderTool, VendorData } from './sdk-model.ts';
import type { CallForm } from './sdk-prompt.ts';
import { isVendorData } from './vendor-parts.ts';
import { modelsOf } from './vendors.ts';

/** Options of `AISDKProvider`: the model, its time limits, and what a request carries. */
export interface AISDKProviderOptions {
  /** Of an AI SDK package with the interface v3 (AI SDK 6) or v4 (AI SDK 7): `anthropic('claude-…')`, `google('gemini-…')`, … */
  readonly model: AISDKModel;
  /** Makes the model of another name, for calls that name one (`model` of a turn or a step). Default: such a call is refused. */
  readonly modelFor?: ((name: string) => AISDKModel) | undefined;
  /** The most that one request may take, from its start to the end of its answer, in milliseconds. Default 600,000; 0 means no limit. */
  readonly timeoutMs?: number | undefined;
  /**
   * The longest silence between two events of a stream, in milliseconds. Default 290,000; 0 means no limit. Pings of the vendor do not end a
   * silence: the package drops them. Node's own `fetch` ends a silence after 300,000; a larger value needs a model with another `fetch`.
   */
  readonly chunkTimeoutMs?: number | undefined;
  /** The most that an answer's text, reasoning and arguments may be, in characters. Default 32 Mi. */
  readonly maxAnswerLength?: number | undefined;
  /** What the model cannot do, and whether it keeps to a `responseFormat`. */
  readonly capabilities?: LLMCapabilities | undefined;
  /** For each call, by vendor: `{ anthropic: { thinking: { type: 'adaptive' } } }`, or a function that gives them for a model's name. Those of a call win over them. */
  readonly providerOptions?: VendorData | ((model: string) => VendorData | undefined) | undefined;
  /**
   * Tools that run at the vendor, by name, as its package makes them: `{ web_search: anthropic.tools.webSearch_20250305() }`. What they did
   * stays in the history, and is no call of the turn. Default: none.
   */
  readonly providerTools?: Readonly<Record<string, object>> | undefined;
  /**
   * Put on the instructions, on the last message and on the last one of the request before, for vendors whose prompt cache wants marks:
   * `{ anthropic: { cacheControl: { type: 'ephemeral' } } }`. Default: none.
   */
  readonly cacheMarks?: VendorData | undefined;
  /** Whether reasoning goes back to the vendor that gave it, with its signatures. Signed thinking with calls needs it. Default true. */
  readonly sendReasoning?: boolean | undefined;
  /**
   * Where pictures and files of tool results go: `result`, or `message`, a user message after the batch, for vendors whose results are
   * texts. Default: by the vendor's profile.
   */
  readonly toolMedia?: 'result' | 'message' | undefined;
  /** Sends the trace context in the headers. False where an instrumentation of `fetch` does it too. Default true. */
  readonly propagateTrace?: boolean | undefined;
  /** OpenTelemetry's `gen_ai.provider.name`. Default: what the model says of its provider. */
  readonly providerName?: string | undefined;
  /** The base address of the vendor's API, for spans and errors. Default: unknown. */
  readonly address?: string | undefined;
  /** Texts that no error may show, such as the key that the model was made with. */
  readonly secrets?: readonly string[] | undefined;
  /** Hears what the AI SDK could not pass on to the vendor, a sentence each. Default: nobody. */
  readonly onWarning?: ((sentence: string) => void) | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

/** The options, checked and complete. */
export interface AISDKSettings {
  readonly form: CallForm;
  readonly limits: RequestLimits;
  readonly capabilities: LLMCapabilities;
  readonly info: LLMProviderInfo;
  readonly clock: Clock;
  /** What is known of a model, by the vendor's name for it. */
  readonly profileOf: (model: string) => Profile;
}

const vendorData: OptionRule = { fits: isVendorData, must: 'be an object with an object for each vendor' };

const rules: OptionRules<AISDKProviderOptions> = {
  model: anything,
  modelFor: aFunction,
  timeoutMs: milliseconds(0),
  chunkTimeoutMs: milliseconds(0),
  maxAnswerLength: wholeNumber(1),
  capabilities: {
    fits: (value) => isJsonObject(value) && wrongCapability(value) === undefined,
    must: `be an object whose members are ${capabilityWords}`,
  },
  providerOptions: {
    fits: (value) => typeof value === 'function' || isVendorData(value),
    must: `${vendorData.must}, or a function that gives one`,
  },
  providerTools: {
    fits: (value) => isJsonObject(value) && Object.values(value).every(isProviderTool),
    must: 'be an object of tools that run at the vendor, as its package makes them',
  },
  cacheMarks: vendorData,
  sendReasoning: aBoolean,
  toolMedia: oneOf('result', 'message'),
  propagateTrace: aBoolean,
  providerName: aName,
  address: {
    fits: (value) => typeof value === 'string' && URL.canParse(value) && new URL(value).password === '',
    must: 'be an address without a password',
    secret: true,
  },
  secrets: { ...someStrings, secret: true },
  onWarning: aFunction,
  clock: aClock,
};

const name = 'AISDKProvider';

/** Errors with `INVALID_CONFIG` at the first option that is wrong. Never shows a secret. */
export function aiSdkSettings(options: AISDKProviderOptions): AISDKSettings {
  if (!isJsonObject(options)) throw new AgentLoopError('INVALID_CONFIG', `${name}: the options must be { model, … }.`);
  assertOptions(name, options, rules);
  const { model, capabilities = {} } = options;
  assertModel(model);
  const { telemetryName, profile, strictTools } = modelsOf(model.provider);
  const { providerOptions } = options;
  return {
    form: {
      sendReasoning: options.sendReasoning ?? true,
      cacheMarks: options.cacheMarks,
      strictTools,
      providerOptions: typeof providerOptions === 'function' ? providerOptions : () => providerOptions,
      providerTools: Object.entries(options.providerTools ?? {}).flatMap(([toolName, tool]) =>
        isProviderTool(tool) ? [{ type: 'provider', id: tool.id, name: toolName, args: tool.args }] : [],
      ),
    },
    limits: {
      timeoutMs: options.timeoutMs ?? 600_000,
      chunkTimeoutMs: options.chunkTimeoutMs ?? 290_000,
      maxBodyBytes: options.maxAnswerLength ?? defaultBodyLimits.maxBodyBytes,
      maxEventBytes: defaultBodyLimits.maxEventBytes,
      bodyOption: 'maxAnswerLength',
    },
    capabilities,
    info: {
      providerName: options.providerName ?? telemetryName,
      model: model.modelId,
      ...(options.address !== undefined && serverOf(new URL(options.address))),
    },
    clock: options.clock ?? systemClock,
    profileOf: keepLatest((of) => withResultMedia(profileOf({ name: profile, model: of }), options.toolMedia)),
  };
}

/** Errors with `INVALID_CONFIG` where it is no model of the interface that this provider speaks. */
export function assertModel(model: unknown): asserts model is AISDKModel {
  if (!isJsonObject(model) || typeof model['doStream'] !== 'function' || typeof model['doGenerate'] !== 'function') {
    const what = 'model must be a language model of an AI SDK package, e.g. createAnthropic({ apiKey })("claude-…")';
    throw new AgentLoopError('INVALID_CONFIG', `${name}: ${what}.`);
  }
  if (interfaceVersions.some((version) => version === model['specificationVersion'])) return;
  const what = `model has the interface ${String(model['specificationVersion'])}; use the vendor's package for AI SDK 6 or 7, whose models have v3 or v4`;
  throw new AgentLoopError('INVALID_CONFIG', `${name}: ${what}.`);
}

/** What the package of a vendor makes: without the name, which it has from where it stands. */
function isProviderTool(value: unknown): value is Omit<SdkProviderTool, 'name'> {
  if (!isJsonObject(value) || value['type'] !== 'provider' || !isJsonObject(value['args'])) return false;
  return typeof value['id'] === 'string' && value['id'].includes('.');
}

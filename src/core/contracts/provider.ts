import type { Context } from '@opentelemetry/api';
import type { Observable } from 'rxjs';
import type { AgentLoopError, ErrorCode } from './errors.ts';
import type { Message, ToolCall, Usage } from './messages.ts';
import type { JSONSchema, ToolDefinition } from './tool.ts';
import { isObject, shownValue } from './values.ts';

/**
 * Why a model stopped: it was done, reached its token limit, requested tools, or was stopped by its content filter. `other`: for a reason that
 * the provider does not know, after a complete answer.
 */
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'other';

/** `auto`: the model decides; `none`: no tool; `required`: at least one; or the tool with that name. */
export type ToolChoice = 'auto' | 'none' | 'required' | { readonly name: string };

/** The form of the answer, if the vendor can guarantee one. */
export interface ResponseFormat {
  readonly type: 'json_schema';
  readonly name: string;
  readonly schema: JSONSchema;
}

/** How much a model reasons before it answers: an effort, or a budget in tokens, from 1. `none`: not at all, if the model can. */
export type Reasoning = 'none' | 'minimal' | 'low' | 'medium' | 'high' | { readonly budgetTokens: number };

/** The settings of model calls that also a single turn can have. A provider leaves out those that its model refuses, and notes that. Absent: the provider's default. */
export interface TurnCallSettings {
  /** At least 0; most models accept 0 to 2. */
  readonly temperature?: number | undefined;
  /** The limit on tokens of the answer, from 1; see `onLength`. */
  readonly maxTokens?: number | undefined;
  /** How much the model reasons before it answers. */
  readonly reasoning?: Reasoning | undefined;
  /** The probability mass of the tokens to choose from: above 0, at most 1. */
  readonly topP?: number | undefined;
  /** 1 to 8 non-empty strings that end the answer; it does not contain them. */
  readonly stop?: readonly string[] | undefined;
  /** For answers that repeat as far as the vendor can: an integer. */
  readonly seed?: number | undefined;
  /** Whether one answer may request several tool calls. */
  readonly parallelToolCalls?: boolean | undefined;
  /** Whether to mark the prompt for the vendor's prompt cache. */
  readonly cache?: boolean | undefined;
}

/** Settings of one model call. Absent: the provider's default. */
export interface CallSettings extends TurnCallSettings {
  /** The vendor's name of the model. */
  readonly model?: string | undefined;
  /** Whether the model may, must or must not call tools. */
  readonly toolChoice?: ToolChoice | undefined;
  /** The form of the answer, for vendors that guarantee one. */
  readonly responseFormat?: ResponseFormat | undefined;
  /** Options of the vendor, under its own names, sent unchanged. */
  readonly providerOptions?: Readonly<Record<string, unknown>> | undefined;
}

/** One change of a request, so that its vendor accepts it. */
export interface RequestChange {
  /** What was changed. */
  readonly kind:
    | 'name'
    | 'call-id'
    | 'text'
    | 'empty'
    | 'order'
    | 'media'
    | 'schema'
    | 'setting'
    | 'tools'
    | 'state'
    | 'item';
  /** Where: `messages[3]`, `tools.look`, `temperature`. */
  readonly at: string;
  /** The change, as part of a sentence: `left out: the model refuses it`. */
  readonly what: string;
}

/** What a provider reports about a request or its answer. */
export type ModelNote =
  /** It changed the request, so that the vendor accepts it; the history is unchanged. */
  | { readonly kind: 'request-fitted'; readonly changes: readonly RequestChange[] }
  /** Something to look into, in one sentence. */
  | { readonly kind: 'warning'; readonly message: string };

/** The parameters of one model call. */
export interface LLMCallParams extends CallSettings {
  /** The history for the model; a system message, if any, is the first. */
  readonly messages: readonly Message[];
  /** Absent if there are none. */
  readonly tools?: readonly ToolDefinition[];
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Aborted when the turn is cancelled. Created on first access. */
  readonly signal?: AbortSignal;
  /** The OpenTelemetry context of this call; it contains the `llm.call` span. */
  readonly traceContext?: Context;
  /**
   * Reports the usage of a request of this call without an answer, before its error or on unsubscribe: what is not reported does not
   * count. Several reports are added up; invalid values are ignored. If the call is answered after all,
   * the sum becomes that answer's `discarded`, unless the answer has its own.
   */
  readonly noteUsage?: (usage: Omit<Usage, 'discarded'>) => void;
  /**
   * Reports what the provider changed in the request, or found in the answer, while the call is in progress. It becomes a live event,
   * `internal:request-fitted` or `internal:llm-warning`, and an event of the `llm.call` span. Invalid notes are ignored.
   */
  readonly note?: (note: ModelNote) => void;
  /** The limit of the model's silence in this call. Absent: none. A provider of providers suspends it while it waits for something else. */
  readonly silence?: SilenceLimit;
}

/** How long the model of a call may be silent: `modelSilenceMs`. Each request of a provider that makes several has its own. */
export interface SilenceLimit {
  /** Suspends the limit until the returned function is called; then the whole time is left. */
  suspend(): () => void;
  /** A limit of the same length, for another request of the call. */
  another(): SilenceLimit;
  /** Calls `onSilence` with a `PROVIDER_TIMEOUT` once no chunk has arrived for the whole limit, until `end`. */
  start(onSilence: (error: AgentLoopError) => void): void;
  /** A chunk has arrived. */
  heard(): void;
  /** The request is over: nothing is called any more. */
  end(): void;
}

/** Parameters that replace those of a call. Its signal stays. */
export interface ChangedParams extends Partial<Omit<LLMCallParams, 'signal'>> {}

/** The whole answer of a model call. */
export interface LLMResponse {
  /** The assistant's message. Calls may be in it or in `toolCalls`; if both have some, `toolCalls` counts. */
  readonly message: Message;
  readonly toolCalls?: readonly ToolCall[];
  /** Absent: `tool_calls` if there are calls, else `stop`. */
  readonly finishReason?: FinishReason;
  /** The vendor's own word for it, if the provider does not know that word. */
  readonly finishWord?: string;
  /** Absent: not reported; the call then adds nothing to the usage of the turn. Zeros: the answer used no tokens. */
  readonly usage?: Usage;
  /** The vendor's id of this response. */
  readonly id?: string;
  /** The model that answered, by the vendor's name. */
  readonly model?: string;
}

/**
 * The chunks of a streaming provider. `attempt` chunks come from policies that make several requests: `begin` opens an attempt
 * after the first, `void` discards everything streamed since the attempt began. `done` comes exactly once, last: it ends the call, and
 * later chunks and errors are dropped.
 */
export type LLMChunk =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'reasoning'; readonly text: string }
  | {
      readonly type: 'tool-call';
      /** Position of the call in the response, from 0. */
      readonly index: number;
      /** On the call's first fragment, if the vendor sends one. */
      readonly id?: string;
      readonly name?: string;
      /** A fragment of the JSON text. */
      readonly arguments?: string;
    }
  | { readonly type: 'attempt'; readonly state: 'begin' | 'void'; readonly reason?: string }
  | { readonly type: 'done'; readonly response: LLMResponse };

/** The capabilities of a provider. Absent members mean `true`. */
export interface LLMCapabilities {
  /** Whether it streams. */
  readonly streaming?: boolean;
  /** Whether it calls tools. */
  readonly tools?: boolean;
  /** Whether a request can force or forbid a tool call. */
  readonly toolChoice?: boolean;
  /** Whether it guarantees a `responseFormat`. Absent means `false`. */
  readonly responseFormat?: boolean;
}

/** The attributes of the `llm.call` span about the model and its server. No secrets. */
export interface LLMProviderInfo {
  /** OpenTelemetry's `gen_ai.provider.name`, e.g. `openai`. */
  readonly providerName?: string;
  /** The model that is asked for, as the vendor names it. */
  readonly model?: string;
  /** The host of the requests, for spans. */
  readonly serverAddress?: string;
  /** The port of the requests, for spans. */
  readonly serverPort?: number;
}

/**
 * A language model. Both methods return the same message for the same answer. A failure is an error of the promise or the
 * Observable, preferably an `AgentLoopError` with a `PROVIDER_…` code; anything else becomes `PROVIDER_FAILED`.
 */
export interface LLMProvider {
  /** What the provider supports. Default: everything except `responseFormat`. */
  readonly capabilities?: LLMCapabilities;
  /** The model and its server, for spans. */
  readonly info?: LLMProviderInfo;
  /** True if the provider creates an `llm.call` span per request, as a provider with policies does: the loop then creates none. */
  readonly tracesAttempts?: boolean;
  /** Loads what the first call needs: a server that starts fails here in place of each turn. Errors: `MISSING_PACKAGE`. */
  prepare?(): Promise<void>;
  /** Makes one call and resolves with the whole answer. */
  call(params: LLMCallParams): Promise<LLMResponse>;
  /** Cold: each subscription is one call. Unsubscribing closes the connection. Completes after `done`. */
  stream?(params: LLMCallParams): Observable<LLMChunk>;
}

const changeKinds: ReadonlySet<unknown> = new Set<RequestChange['kind']>([
  'name',
  'call-id',
  'text',
  'empty',
  'order',
  'media',
  'schema',
  'setting',
  'tools',
  'state',
  'item',
]);

/** Whether a value is a valid note. */
export function isModelNote(note: unknown): note is ModelNote {
  if (!isObject(note)) return false;
  const { kind, message, changes }: { kind?: unknown; message?: unknown; changes?: unknown } = note;
  if (kind === 'warning') return typeof message === 'string' && message !== '';
  return kind === 'request-fitted' && Array.isArray(changes) && changes.length > 0 && changes.every(isRequestChange);
}

function isRequestChange(change: unknown): boolean {
  if (!isObject(change)) return false;
  const { kind, at, what }: { kind?: unknown; at?: unknown; what?: unknown } = change;
  return changeKinds.has(kind) && typeof at === 'string' && typeof what === 'string';
}

/** The validation of one setting; both texts are parts of a sentence. */
interface SettingRule {
  readonly fits: (value: unknown) => boolean;
  /** The rest of the error message after the setting's name and `must`. */
  readonly must: string;
  readonly cure: string;
}

/** The rules of the settings that also a single turn can have. */
export const turnCallRules: { readonly [Name in keyof TurnCallSettings]-?: SettingRule } = {
  temperature: {
    fits: (value) => Number.isFinite(value) && Number(value) >= 0,
    must: 'be a number of at least 0',
    cure: 'most models take 0 to 2',
  },
  maxTokens: {
    fits: (value) => Number.isSafeInteger(value) && Number(value) >= 1,
    must: 'be a whole number of at least 1',
    cure: 'or leave it out',
  },
  reasoning: {
    fits: isReasoning,
    must: 'be "none", "minimal", "low", "medium", "high" or { budgetTokens }, a whole number of at least 1',
    cure: 'leave it out for the model’s default',
  },
  topP: {
    fits: (value) => Number.isFinite(value) && Number(value) > 0 && Number(value) <= 1,
    must: 'be a number above 0 and at most 1',
    cure: 'or leave it out',
  },
  stop: { fits: areStopStrings, must: 'be an array of 1 to 8 non-empty strings', cure: 'leave it out for none' },
  seed: { fits: (value) => Number.isSafeInteger(value), must: 'be an integer', cure: 'or leave it out' },
  parallelToolCalls: { fits: isBoolean, must: 'be true or false', cure: 'leave it out for the model’s default' },
  cache: { fits: isBoolean, must: 'be true or false', cure: 'leave it out for the provider’s default' },
};

/**
 * The rule of each setting. A new setting is a member of its interface and an entry here: options, changes by extensions, journals and copies go
 * by this table.
 */
export const callSettingRules: { readonly [Name in keyof CallSettings]-?: SettingRule } = /* @__PURE__ */ Object.assign(
  {
    model: {
      fits: (value: unknown) => typeof value === 'string' && value !== '',
      must: 'be a name',
      cure: 'leave it out for the provider’s own',
    },
    toolChoice: {
      fits: isToolChoice,
      must: 'be "auto", "none", "required" or { name }',
      cure: 'leave it out to let the model decide',
    },
  },
  turnCallRules,
  {
    responseFormat: {
      fits: isResponseFormat,
      must: 'be { type: "json_schema", name, schema }',
      cure: 'or leave it out',
    },
    providerOptions: { fits: isObject, must: 'be an object', cure: 'or leave it out' },
  },
);

function isSetting(name: string): name is keyof CallSettings {
  return Object.hasOwn(callSettingRules, name);
}

function isTurnCallSetting(name: string): name is keyof TurnCallSettings {
  return Object.hasOwn(turnCallRules, name);
}

const callSettingNames: readonly (keyof CallSettings)[] = /* @__PURE__ */ Object.keys(callSettingRules).filter(
  isSetting,
);

/** The names of the settings that also a single turn can have. */
export const turnCallNames: readonly (keyof TurnCallSettings)[] = /* @__PURE__ */ Object.keys(turnCallRules).filter(
  isTurnCallSetting,
);

/** An invalid setting and the fix; both as parts of a sentence. */
type Flaw = readonly [what: string, cure: string];

/** Returns the first flaw in settings of model calls, if any. */
export function settingsFlaw(settings: CallSettings): Flaw | undefined {
  for (const name of callSettingNames) {
    const value = settings[name];
    const { fits, must, cure } = callSettingRules[name];
    if (value !== undefined && !fits(value)) return [`${name} must ${must}, not ${shownValue(value)}`, cure];
  }
  return undefined;
}

/** Copies the defined settings. */
export function copySettings(to: Mutable<CallSettings>, from: CallSettings): void {
  for (const name of callSettingNames) if (from[name] !== undefined) copySetting(name, to, from);
}

/** The defined settings of a turn's model calls among its options; `undefined` if there are none. */
export function turnCallSettingsOf(options: TurnCallSettings): TurnCallSettings | undefined {
  let settings: Mutable<TurnCallSettings> | undefined;
  for (const name of turnCallNames) {
    if (options[name] === undefined) continue;
    settings ??= {};
    copySetting(name, settings, options);
  }
  return settings;
}

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] };

function copySetting<Name extends keyof CallSettings>(
  name: Name,
  to: Mutable<Pick<CallSettings, Name>>,
  from: Pick<CallSettings, Name>,
): void {
  to[name] = from[name];
}

const efforts: ReadonlySet<unknown> = new Set<Reasoning>(['none', 'minimal', 'low', 'medium', 'high']);

/** Whether a value is an effort or a budget of reasoning. */
export function isReasoning(value: unknown): value is Reasoning {
  if (efforts.has(value)) return true;
  if (!isObject(value) || Object.keys(value).length !== 1) return false;
  const tokens: unknown = Reflect.get(value, 'budgetTokens');
  return Number.isSafeInteger(tokens) && Number(tokens) >= 1;
}

function areStopStrings(value: unknown): boolean {
  if (!Array.isArray(value) || value.length < 1 || value.length > 8) return false;
  return value.every((each) => typeof each === 'string' && each !== '');
}

function isBoolean(value: unknown): boolean {
  return typeof value === 'boolean';
}

function isToolChoice(choice: unknown): boolean {
  if (choice === 'auto' || choice === 'none' || choice === 'required') return true;
  return isObject(choice) && typeof Reflect.get(choice, 'name') === 'string';
}

function isResponseFormat(format: unknown): boolean {
  if (!isObject(format) || Reflect.get(format, 'type') !== 'json_schema') return false;
  return typeof Reflect.get(format, 'name') === 'string' && isObject(Reflect.get(format, 'schema'));
}

/**
 * How a turn survives a model that is unavailable for minutes or hours: a model call that fails with a retryable error does not fail the turn,
 * which is suspended with the reason `backoff` and continues later. For failures that last seconds use the policy `retry`, which
 * repeats a request within the call; this plan applies after that policy has given up.
 */
export interface RetryPlan {
  /** The maximum number of attempts of one model call, from 1; each answer resets the count. Default 5. */
  readonly attempts?: number;
  /** The longest delay after the first failure; it doubles with each. The actual delay is random, from half of it. Milliseconds; default 10,000. */
  readonly delayMs?: number;
  /**
   * The longest delay. If a server requests a longer one (`Retry-After`), the turn fails; a shorter one is applied exactly.
   * Milliseconds; default 900,000.
   */
  readonly maxDelayMs?: number;
  /** The error codes to retry. Default: those of errors that are `retryable`. */
  readonly on?: readonly ErrorCode[];
}

export const retryDefaults = { attempts: 5, delayMs: 10_000, maxDelayMs: 900_000 };

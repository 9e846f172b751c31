import type { Context } from '@opentelemetry/api';
import type {
  ChangedParams,
  LLMCallParams,
  Message,
  Reasoning,
  ResponseFormat,
  SilenceLimit,
  ToolChoice,
  ToolDefinition,
} from '../contracts/index.ts';
import { AbortScope } from '../streams/index.ts';

/** The parameters of a call. The signal is created on first access. */
export class CallParams implements LLMCallParams {
  messages: readonly Message[];
  metadata: Readonly<Record<string, unknown>>;
  declare tools?: readonly ToolDefinition[];
  declare model?: string;
  declare toolChoice?: ToolChoice;
  declare temperature?: number;
  declare maxTokens?: number;
  declare reasoning?: Reasoning;
  declare topP?: number;
  declare stop?: readonly string[];
  declare seed?: number;
  declare parallelToolCalls?: boolean;
  declare cache?: boolean;
  declare responseFormat?: ResponseFormat;
  declare providerOptions?: Readonly<Record<string, unknown>>;
  declare traceContext?: Context;
  declare noteUsage?: NonNullable<LLMCallParams['noteUsage']>;
  declare note?: NonNullable<LLMCallParams['note']>;
  declare silence?: SilenceLimit;
  declare readonly signal: AbortSignal;
  readonly #scope: AbortScope;

  constructor(messages: readonly Message[], metadata: Readonly<Record<string, unknown>>, scope: AbortScope) {
    this.messages = messages;
    this.metadata = metadata;
    this.#scope = scope;
    Object.defineProperty(this, 'signal', CallParams.#signal);
  }

  /** The scope of a call, without creating its signal. */
  static scopeOf(params: LLMCallParams): AbortScope | undefined {
    if (params instanceof CallParams) return params.#scope;
    return params.signal && AbortScope.of(params.signal);
  }

  /** A copy with changes, whose signal is created on first access as well. `scope`: its own, in place of that of the call. */
  static changed(params: LLMCallParams, changes: ChangedParams, scope?: AbortScope): LLMCallParams {
    if (!(params instanceof CallParams)) return { ...params, ...changes, ...(scope && { signal: scope.signal }) };
    const copy = new CallParams(params.messages, params.metadata, scope ?? params.#scope);
    // A spread, and `Object.assign`, would read the signal.
    for (const name of Reflect.ownKeys(params))
      if (name !== 'signal') Reflect.set(copy, name, Reflect.get(params, name));
    return Object.assign(copy, changes);
  }

  /**
   * An own property, so that a spread copy also has the signal; and one shared getter: with an accessor in a literal each object has
   * its own hidden class, which slows down every access.
   */
  static readonly #signal: PropertyDescriptor & ThisType<CallParams> = {
    get() {
      return this.#scope.signal;
    },
    enumerable: true,
    configurable: true,
  };
}

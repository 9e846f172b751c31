import type { Context } from '@opentelemetry/api';
import type { Message } from '../contracts/messages.ts';
import type { LLMCallParams, ResponseFormat, ToolChoice } from '../contracts/provider.ts';
import type { ToolDefinition } from '../contracts/tool.ts';
import type { AbortScope } from '../streams/abort-scope.ts';

/** What the model is asked. Its signal is made when it is read. */
export class CallParams implements LLMCallParams {
  messages: readonly Message[];
  metadata: Readonly<Record<string, unknown>>;
  declare tools?: readonly ToolDefinition[];
  declare model?: string;
  declare toolChoice?: ToolChoice;
  declare temperature?: number;
  declare maxTokens?: number;
  declare responseFormat?: ResponseFormat;
  declare providerOptions?: Readonly<Record<string, unknown>>;
  declare traceContext?: Context;
  declare noteUsage?: NonNullable<LLMCallParams['noteUsage']>;
  declare readonly signal: AbortSignal;
  readonly #scope: AbortScope;

  constructor(messages: readonly Message[], metadata: Readonly<Record<string, unknown>>, scope: AbortScope) {
    this.messages = messages;
    this.metadata = metadata;
    this.#scope = scope;
    Object.defineProperty(this, 'signal', CallParams.#signal);
  }

  /**
   * An own member, so that a copy by spread has the signal too; and one getter for all: with an accessor in a literal each object has
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

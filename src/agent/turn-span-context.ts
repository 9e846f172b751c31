import type { Context } from '@opentelemetry/api';
import type { AgentLoopConfig, Message } from '../core/contracts/index.ts';
import type { LoopState } from '../core/journal/index.ts';
import { finishTurnSpanAt, startTurnSpan } from '../observability/spans/run-spans.ts';
import {
  failSpan,
  isSilent,
  type TracedSpan,
  type TurnIds,
  turnTracing,
} from '../observability/spans/tracing-options.ts';

export interface TurnSpanOptions {
  readonly config: AgentLoopConfig;
  readonly ids: TurnIds;
  readonly agentName: string;
  readonly messages: readonly Message[];
  readonly parent: Context;
}

/**
 * The context of an `agent.turn` span, which starts when it is first read: the turn it belongs to does nothing before somebody
 * subscribes, and neither does its span.
 */
export class TurnSpanContext implements Context {
  readonly #options: TurnSpanOptions;
  readonly #tracing;
  #traced: TracedSpan | undefined;

  constructor(options: TurnSpanOptions) {
    this.#options = options;
    this.#tracing = turnTracing(options.config, options.ids);
  }

  getValue(key: symbol): unknown {
    return this.#context.getValue(key);
  }

  setValue(key: symbol, value: unknown): Context {
    return this.#context.setValue(key, value);
  }

  deleteValue(key: symbol): Context {
    return this.#context.deleteValue(key);
  }

  /** Writes how the turn went, and ends the span. Without an effect on one that never started. */
  end(state: LoopState | undefined, lost?: { readonly cause: unknown }): void {
    const span = this.#traced?.span;
    if (!span) return;
    if (state) finishTurnSpanAt(this.#tracing, span, state);
    if (lost) failSpan(span, lost.cause);
    span.end();
  }

  get #context(): Context {
    const { agentName, messages, parent } = this.#options;
    if (isSilent(this.#tracing)) return parent;
    this.#traced ??= startTurnSpan(this.#tracing, { agentName, messages }, parent);
    return this.#traced.traceContext;
  }
}

import type { Context } from '@opentelemetry/api';
import { type Observable, Subject } from 'rxjs';
import {
  type AgentEvent,
  type AgentLoopConfig,
  AgentLoopError,
  addUsage,
  type Logger,
  type Message,
  noUsage,
  type Tool,
  type Usage,
} from '../core/contracts/index.ts';
import { type LoopState, resultOf } from '../core/journal/index.ts';
import { DirectSubscriber } from '../core/streams/index.ts';
import type { Turn } from '../core/turn/index.ts';
import { finishTurnSpanAt, startTurnSpan } from '../observability/spans/run-spans.ts';
import { failSpan, type TracedSpan, type TurnIds, turnTracing } from '../observability/spans/tracing-options.ts';
import { type AgentNotice, type AgentState, isKind, type MessageReceivedEvent, type NoticeOf } from './agent-events.ts';
import type { BetweenTurns } from './conversation.ts';
import type { RunningTurn, RunningTurns } from './open-turns.ts';

/** Why turns of a closed agent are cancelled. */
export const closed = 'the agent is closed';

interface LifecycleOptions {
  readonly agentId: string;
  readonly running: RunningTurns;
  /** Starts after the turns that end here. */
  readonly between: BetweenTurns | undefined;
  readonly logger: Logger | undefined;
}

/** The states of an agent, the turns that take it from one to the next, and the events of both for its listeners. */
export class Lifecycle {
  readonly #options: LifecycleOptions;
  readonly #notices = new Subject<AgentNotice>();
  #state: AgentState = 'created';
  /** Turns of the agent that run. */
  #active = 0;

  constructor(options: LifecycleOptions) {
    this.#options = options;
  }

  get state(): AgentState {
    return this.#state;
  }

  get events$(): Observable<AgentNotice> {
    return this.#notices.asObservable();
  }

  /** Calls `listener` with each of these events that is of a kind, until the function that it gives back is called. What it throws is logged. */
  on<K extends AgentNotice['kind'], X extends Tool>(
    notices$: Observable<AgentNotice<X>>,
    kind: K,
    listener: (event: NoticeOf<K, X>) => void,
  ): () => void {
    const subscription = notices$.subscribe((notice) => {
      if (!isKind(notice, kind)) return;
      try {
        listener(notice);
      } catch {
        const { agentId, logger } = this.#options;
        logger?.error('listener failed', { agentId, kind });
      }
    });
    return () => subscription.unsubscribe();
  }

  tell(notice: AgentNotice): void {
    this.#notices.next(notice);
  }

  /** Keeps a turn among those that run, from its first event to its end, and passes its events on. */
  watch(turn: Turn, span: TurnSpanContext): void {
    const { running, between } = this.#options;
    let entry: RunningTurn | undefined;
    const over = (lost?: { readonly cause: unknown }) => {
      span.end(turn.state, lost);
      if (running.get(turn.taskId)?.endsHere) between?.start(turn.contextId);
      running.delete(turn);
      if (entry && --this.#active === 0 && this.#state === 'busy') this.#enter('ready');
    };
    // A detached turn may have begun by now; a subscriber receives a replay of the earlier events.
    const events$ = turn.state === undefined ? turn.live$ : turn;
    const events = new DirectSubscriber<AgentEvent>({
      next: (event) => {
        if (event.kind === 'task') {
          // It was given out before the agent was closed, and begins only now.
          if (this.#state === 'closed') turn.cancel(closed).catch(() => {});
          if (!entry) {
            entry = running.add(turn, event.contextId);
            if (entry) this.#active++;
          }
        }
        if (!entry) return;
        if (this.#state === 'ready') this.#enter('busy');
        if (!this.#notices.observed) return;
        const received = entry.endsHere ? receivedMessage(event, turn.state) : undefined;
        if (received) this.#notices.next(received);
        this.#notices.next(event);
      },
      error: (cause: unknown) => over({ cause }),
      complete: () => over(),
    });
    events$.subscribe(events);
  }

  /** Before each turn. Errors: `SHUTDOWN` once the agent is closed. */
  open(): void {
    if (this.#state === 'closed') {
      throw new AgentLoopError(
        'SHUTDOWN',
        `Agent "${this.#options.agentId}" is closed; make another with agent({ … }).`,
      );
    }
    if (this.#state === 'created') this.#enter('ready');
  }

  /** Takes no more turns. */
  close(): void {
    if (this.#state !== 'closed') this.#enter('closed');
  }

  /** Tells nothing more. */
  complete(): void {
    this.#notices.complete();
  }

  #enter(state: AgentState): void {
    this.#state = state;
    this.#notices.next({ kind: 'agent:state', agentId: this.#options.agentId, state });
  }
}

/** What the agent tells in front of the last event of a turn that completed. */
function receivedMessage(event: AgentEvent, state: LoopState | undefined): MessageReceivedEvent | undefined {
  if (event.kind !== 'status-update' || !event.final || event.status.state !== 'completed' || !state) return undefined;
  const { message = { role: 'assistant' as const, content: '' }, text, taskId, contextId, agentId } = resultOf(state);
  return { kind: 'message:received', agentId, taskId, contextId, message, text };
}

interface TurnSpanOptions {
  readonly config: AgentLoopConfig;
  readonly ids: TurnIds;
  readonly agentName: string;
  readonly description: string | undefined;
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
    const { agentName, description, messages, parent } = this.#options;
    if (this.#tracing.isSilent) return parent;
    this.#traced ??= startTurnSpan(this.#tracing, { agentName, description, messages }, parent);
    return this.#traced.traceContext;
  }
}

/** What turns took, added up. */
export interface UsageSummary {
  /** Turns that ended, however they did. */
  readonly turns: number;
  /** Model calls. */
  readonly iterations: number;
  readonly toolCalls: number;
  readonly usage: Usage;
}

export class UsageTally {
  summary: UsageSummary = { turns: 0, iterations: 0, toolCalls: 0, usage: noUsage };

  /** The usage of model calls that are part of no turn of the agent. */
  addUsage(usage: Usage): void {
    this.summary = { ...this.summary, usage: addUsage(this.summary.usage, usage) };
  }

  /** A turn that ended, with its own usage, or that of its tree. */
  add({ iteration, toolCalls }: Pick<LoopState, 'iteration' | 'toolCalls'>, used: Usage): void {
    const { summary } = this;
    this.summary = {
      turns: summary.turns + 1,
      iterations: summary.iterations + iteration,
      toolCalls: summary.toolCalls + toolCalls,
      usage: addUsage(summary.usage, used),
    };
  }
}

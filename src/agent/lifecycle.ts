import type { Context } from '@opentelemetry/api';
import { type Observable, Subject } from 'rxjs';
import { callListener } from '../call-listener.ts';
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
import { finishTurnSpanAt, startTurnSpan } from '../observability/spans/run-spans.ts';
import { failSpan, type TracedSpan, type TurnIds, turnTracing } from '../observability/spans/tracing-options.ts';
import type { Turn } from '../tasks/turn.ts';
import { type AgentNotice, type AgentState, isKind, type MessageReceivedEvent, type NoticeOf } from './agent-events.ts';
import type { BetweenTurns } from './conversation.ts';
import type { RunningTurn, RunningTurns } from './open-turns.ts';

/** The reason with which turns of a closed agent are cancelled. */
export const closed = 'the agent is closed';

interface LifecycleOptions {
  readonly agentId: string;
  readonly running: RunningTurns;
  /** Runs after each turn that ends here. */
  readonly between: BetweenTurns | undefined;
  readonly logger: Logger | undefined;
}

/** The state of an agent and its running turns; emits the events of both to its listeners. */
export class Lifecycle {
  readonly #options: LifecycleOptions;
  readonly #notices = new Subject<AgentNotice>();
  #state: AgentState = 'created';
  /** The number of running turns. */
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

  /** Calls `listener` with each event of that kind, until the returned function is called. What the listener throws is logged; see `callListener`. */
  on<K extends AgentNotice['kind'], X extends Tool>(
    notices$: Observable<AgentNotice<X>>,
    kind: K,
    listener: (event: NoticeOf<K, X>) => void,
  ): () => void {
    const subscription = notices$.subscribe((notice) => {
      const { agentId, logger } = this.#options;
      if (isKind(notice, kind)) callListener(listener, notice, { logger, fields: { agentId, kind } });
    });
    return () => subscription.unsubscribe();
  }

  tell(notice: AgentNotice): void {
    this.#notices.next(notice);
  }

  /** Tracks a turn as running from its first event to its end, and relays its events. */
  watch(turn: Turn, span: TurnSpanContext): void {
    const { running, between } = this.#options;
    let entry: RunningTurn | undefined;
    const over = (lost?: { readonly cause: unknown }) => {
      span.end(turn.state, lost);
      if (running.get(turn.taskId)?.endsHere) between?.start(turn.contextId, turn.state);
      running.delete(turn);
      if (entry && --this.#active === 0 && this.#state === 'busy') this.#enter('ready');
    };
    // A detached turn may have started already; a subscriber receives a replay of the earlier events.
    const events$ = turn.state === undefined ? turn.live$ : turn;
    const events = new DirectSubscriber<AgentEvent>({
      next: (event) => {
        if (event.kind === 'task') {
          // It was created before the agent was closed, and starts only now.
          if (this.#state === 'closed') void turn.leave(closed);
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
        `Agent "${this.#options.agentId}" is closed; create another one with agent({ … }).`,
      );
    }
    if (this.#state === 'created') this.#enter('ready');
  }

  /** Refuses new turns. */
  close(): void {
    if (this.#state !== 'closed') this.#enter('closed');
  }

  /** Completes the events. */
  complete(): void {
    this.#notices.complete();
  }

  #enter(state: AgentState): void {
    this.#state = state;
    this.#notices.next({ kind: 'agent:state', agentId: this.#options.agentId, state });
  }
}

/** The event that precedes the last event of a completed turn. */
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
  /** The turn is created by this call: it has a span even if nothing of it runs. */
  readonly isNew?: boolean;
}

/**
 * The context of an `agent.turn` span, which starts on first access: a turn does nothing before its first
 * subscription, and neither does its span.
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

  /** Records the outcome of the turn, and ends the span. No effect if it never started, except for a new turn, which may wait from its first record on. */
  end(state: LoopState | undefined, lost?: { readonly cause: unknown }): void {
    if (state && this.#options.isNew && !this.#traced && !this.#tracing.isSilent) this.#start();
    const span = this.#traced?.span;
    if (!span) return;
    if (state) finishTurnSpanAt(this.#tracing, span, state);
    if (lost) failSpan(span, lost.cause);
    span.end();
  }

  get #context(): Context {
    if (this.#tracing.isSilent) return this.#options.parent;
    const { traceContext } = this.#traced ?? this.#start();
    return traceContext;
  }

  #start(): TracedSpan {
    const { agentName, description, messages, parent, config } = this.#options;
    const input = { agentName, description, messages, provider: config.llmProvider.info };
    this.#traced = startTurnSpan(this.#tracing, input, parent);
    return this.#traced;
  }
}

/** The usage of turns, added up. */
export interface UsageSummary {
  /** The number of turns that ended, in any state. */
  readonly turns: number;
  /** Model calls. */
  readonly iterations: number;
  /** Calls that have a result, also failed ones. */
  readonly toolCalls: number;
  readonly usage: Usage;
}

export class UsageTally {
  summary: UsageSummary = { turns: 0, iterations: 0, toolCalls: 0, usage: noUsage };

  /** Adds the usage of model calls outside the agent's turns. */
  addUsage(usage: Usage): void {
    this.summary = { ...this.summary, usage: addUsage(this.summary.usage, usage) };
  }

  /** Adds a turn that ended, with its own usage, or that of its tree. */
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

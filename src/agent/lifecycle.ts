import { type Observable, Subject } from 'rxjs';
import { type AgentEvent, AgentLoopError, type Logger, type Tool } from '../core/contracts/index.ts';
import { type LoopState, resultOf } from '../core/journal/index.ts';
import { DirectSubscriber } from '../core/streams/index.ts';
import type { Turn } from '../core/turn/index.ts';
import { type AgentNotice, type AgentState, isKind, type MessageReceivedEvent, type NoticeOf } from './agent-events.ts';
import type { BetweenTurns } from './between-turns.ts';
import type { RunningTurn, RunningTurns } from './running-turns.ts';
import type { TurnSpanContext } from './turn-span-context.ts';

/** Why turns of a closed agent are cancelled. */
export const closed = 'the agent is closed';

export interface LifecycleOptions {
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

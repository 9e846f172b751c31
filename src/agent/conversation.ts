import { catchError, firstValueFrom, from, map, Observable, of, throwError } from 'rxjs';
import type { Admission } from '../core/admission.ts';
import { TurnLost } from '../core/child-turns.ts';
import type { Logger } from '../core/config.ts';
import { AgentLoopError, messageOf } from '../core/errors.ts';
import type { Extension, HookContext, TurnBeginning, TurnEnd } from '../core/extension.ts';
import { type Message, repairHistory } from '../core/messages.ts';
import { handOver } from '../core/operators/hand-over.ts';
import { operate } from '../core/operators/operate.ts';
import { type Deadline, whenReady } from '../core/operators/when-ready.ts';
import type { Signal } from '../core/signals.ts';
import { carryOver, compactionOf, compactionOfTurn, withCompaction } from '../extensions/carry-over.ts';
import type { TaskStateStore } from '../stores/interfaces.ts';
import type { MessageStore } from '../stores/messages/message-store.ts';
import type { BusyPolicy } from './agent-options.ts';
import type { BetweenTurns } from './between-turns.ts';
import {
  conversationName,
  type EndedTurn,
  endedTurn,
  historyLength,
  type OpenTurn,
  settleTurnsAhead,
  stateOf,
} from './open-turns.ts';
import { contextBusy, type RunningTurns, runsHere } from './running-turns.ts';

/** What a turn of a team begins with. */
export interface OpeningRequest {
  /** What the context remembers, and what the turn was given. */
  readonly messages: readonly Message[];
  /** What the turn was given. */
  readonly added: readonly Message[];
  /** The agent that answers next, as the message store has it. */
  readonly current: string | undefined;
  readonly context: HookContext;
}

/** The agent that answers; none where the team itself does. */
export type Opening = (request: OpeningRequest) => Promise<Pick<TurnBeginning, 'agent'>>;

export interface ConversationOptions {
  readonly messageStore: MessageStore;
  /** Where the turns are journaled, if they are. */
  readonly journal: TaskStateStore | undefined;
  readonly busy: BusyPolicy;
  readonly running: RunningTurns;
  readonly deadline: Deadline;
  /** How long another process may be silent before it counts as dead. */
  readonly leaseMs: number;
  readonly logger: Logger | undefined;
  /** The context remembers what was asked and answered, without the calls between. */
  readonly endsOnly: boolean;
  /** Where contexts are compacted, a turn begins with the summary that was made last, in place of what that stands for. */
  readonly between: BetweenTurns | undefined;
  /** Chooses the agent of a team that answers; absent for one agent, and not asked where the caller named one. */
  readonly choose?: Opening | undefined;
  /** `agentId`: the agent that answers, where one was chosen. */
  readonly onSent: (context: HookContext, messages: readonly Message[], agentId?: string) => void;
  readonly onEnd: (end: TurnEnd) => void;
}

/**
 * Puts the context's history in front of what a turn is given, and saves what the turn added once its end is recorded: an open turn may
 * still add something, also in another process. The last of the extensions that are asked `beforeTurn`, so that others see, and may
 * change, only what the caller gave.
 */
export function conversation(options: ConversationOptions): {
  readonly extension: Extension;
  readonly admission: (contextId: string, taskId: string) => Admission;
} {
  const memory = new Conversation(options);
  const extension: Extension = {
    name: conversationName,
    onError: 'continue',
    timeoutMs: 0,
    beforeTurn: (context) => memory.begin(context),
    afterTurn: (end) => options.onEnd(end),
    afterEnd: (end) => memory.save(end),
  };
  return { extension, admission: (contextId, taskId) => memory.admission(contextId, taskId) };
}

/** For a child turn: it tells what a conversation tells, chooses an agent as it does, and keeps nothing. */
export function withoutMemory({
  onSent,
  onEnd,
  choose,
}: Pick<ConversationOptions, 'onSent' | 'onEnd' | 'choose'>): Extension {
  return {
    name: conversationName,
    onError: 'continue',
    timeoutMs: 0,
    beforeTurn(context) {
      const { messages } = context.state;
      if (!choose) return onSent(context, messages);
      return failingAs(async () => {
        const chosen = await choose({ messages, added: messages, current: undefined, context });
        onSent(context, messages, chosen.agent?.to);
        return chosen;
      });
    },
    afterTurn: (end) => onEnd(end),
  };
}

/**
 * An error fails the turn with its code. A context that is busy, and a child turn that is lost, as that of a router, lose the turn; with
 * `resumable` so does a store that is away: who resumes the turn asks it again.
 */
async function failingAs(begin: () => Promise<TurnBeginning>, resumable = false): Promise<TurnBeginning> {
  try {
    return await begin();
  } catch (error) {
    if (TurnLost.isInstance(error)) throw error;
    if ((resumable && isAway(error)) || isBusy(error)) throw new TurnLost(error);
    const known = AgentLoopError.isInstance(error) ? error : undefined;
    return { fail: { code: known?.code ?? 'UNAVAILABLE', message: messageOf(error), cause: known?.cause ?? error } };
  }
}

function isBusy(error: unknown): boolean {
  return AgentLoopError.isInstance(error) && error.code === 'AGENT_BUSY';
}

function isAway(error: unknown): boolean {
  return AgentLoopError.isInstance(error) && error.code === 'UNAVAILABLE' && error.retryable;
}

class Conversation {
  readonly #options: ConversationOptions;
  /** By context, what could not be saved and no journal keeps: it is tried again before the next turn. */
  readonly #unsaved = new Map<string, ReadonlyMap<string, EndedTurn>>();

  constructor(options: ConversationOptions) {
    this.#options = options;
  }

  /** Errors end the turn: without its history it would be another conversation. A turn with a journal outlives a store that is away. */
  begin(context: HookContext): Promise<TurnBeginning> {
    return failingAs(() => this.#begin(context), this.#options.journal !== undefined);
  }

  async save(end: TurnEnd): Promise<void> {
    const { journal } = this.#options;
    const { contextId, taskId, state } = end;
    const began = historyLength(state) !== undefined;
    if (!began && !journal) return;
    const ended = endedTurn(state);
    try {
      await this.#append(contextId, taskId, ended);
    } catch (error) {
      if (!journal) this.#keep(contextId, taskId, ended);
      throw error;
    }
    await this.#keepSummary(end);
  }

  /** A summary that cannot be kept costs the next turn one of its own. */
  async #keepSummary({ contextId, state }: TurnEnd): Promise<void> {
    const { messageStore, between } = this.#options;
    const compaction = between ? compactionOfTurn(state) : undefined;
    if (!compaction) return;
    const { metadata, version } = await this.#ask(() => messageStore.load(contextId, { limit: 0 }));
    await this.#ask(() => messageStore.setMetadata(contextId, withCompaction(metadata, compaction), { version }));
  }

  async #begin(context: HookContext): Promise<TurnBeginning> {
    const { messageStore, journal, endsOnly } = this.#options;
    const { contextId } = context;
    if (journal) {
      await this.#register(context);
      await this.#waitForTurns(context, journal);
    } else {
      await this.#waitHere(context);
    }
    await this.#saveKept(contextId);
    await this.#options.between?.settled(contextId);
    const { messages, metadata, agentId: current } = await this.#ask(() => messageStore.load(contextId));
    const compaction = this.#options.between ? compactionOf(metadata) : undefined;
    const history = repairHistory(carryOver(messages, compaction));
    const added = context.state.messages;
    const given = [...history, ...added];
    const named = context.state.turn.settings.agentId !== undefined;
    const chosen = named ? undefined : await this.#options.choose?.({ messages: given, added, current, context });
    this.#options.onSent(context, added, chosen?.agent?.to);
    const data = { history: history.length, ...(endsOnly && { endsOnly }) };
    return { given, earlier: history.length, data, ...chosen };
  }

  /**
   * Refuses a new turn of a busy context, as the policy says, before anything of it is recorded. Of two that start at the same time, the one
   * that registered second is refused later; its journal is deleted. Either way its id can be used again.
   */
  admission(contextId: string, taskId: string): Admission {
    const { journal, running, busy } = this.#options;
    return (run$) => {
      if (running.get(taskId)) return run$;
      if (busy === 'queue') return journal ? placed(run$, () => running.enter(contextId, taskId)) : run$;
      const ahead = busy === 'reject' ? running.ahead(contextId, taskId) : undefined;
      if (ahead) return throwError(() => contextBusy(contextId, ahead.turn.taskId, runsHere));
      if (!journal) return run$;
      const forgetting = operate<Signal, Signal>((to) => ({
        error: (error) =>
          isBusy(error) ? void this.#forgetUnbegun(journal, taskId).finally(() => to.error(error)) : to.error(error),
      }));
      const admitted$ = forgetting(run$);
      return this.#openTurns(contextId).pipe(
        handOver(([first = taskId]) =>
          first === taskId ? admitted$ : from(this.#admit(contextId, taskId, journal)).pipe(handOver(() => admitted$)),
        ),
      );
    };
  }

  /** None where the store is away: that refuses nothing here, the turn is asked again once it can be resumed. */
  #openTurns(contextId: string): Observable<readonly string[]> {
    const { messageStore, deadline } = this.#options;
    return whenReady(() => messageStore.load(contextId, { limit: 0 }), deadline).pipe(
      map(({ openTurns }) => openTurns),
      catchError(() => of([])),
    );
  }

  /** A turn that there is, is attached to. */
  async #admit(contextId: string, taskId: string, journal: TaskStateStore): Promise<void> {
    const { messageStore } = this.#options;
    const look = async () => {
      const open = await settleTurnsAhead({ messageStore, journal }, contextId, taskId);
      return open && this.#refuses(open) && !(await stateOf(journal, taskId)) ? open : undefined;
    };
    const open = await this.#ask(look).catch(() => undefined);
    if (open) throw contextBusy(contextId, open.taskId, reasonOf(open));
  }

  /** One that another process resumed by now is its own. */
  async #forgetUnbegun(journal: TaskStateStore, taskId: string): Promise<void> {
    const records = await this.#ask(() => journal.read(taskId)).catch(() => []);
    if (records.length === 1) await this.#ask(() => journal.delete(taskId)).catch(() => {});
  }

  #refuses({ taskId, status }: OpenTurn): boolean {
    const { busy, running } = this.#options;
    return busy === 'reject' || (busy === 'steer' && status !== 'running' && !running.get(taskId));
  }

  /** Takes the turn's place in its context: the order in the store is that of the process. */
  async #register({ contextId, taskId, signal }: HookContext): Promise<void> {
    const { running, messageStore } = this.#options;
    running.enter(contextId, taskId);
    try {
      for (
        let before = running.unregistered(contextId, taskId);
        before;
        before = running.unregistered(contextId, taskId)
      ) {
        await before.registered;
        signal.throwIfAborted();
      }
      await this.#ask(() => messageStore.begin(contextId, taskId));
    } finally {
      running.register(taskId);
    }
  }

  async #waitForTurns({ contextId, taskId, signal }: HookContext, journal: TaskStateStore): Promise<void> {
    const { messageStore, running, logger } = this.#options;
    const look = () => this.#ask(() => settleTurnsAhead({ messageStore, journal }, contextId, taskId));
    let told = '';
    for (let open = await look(); open; open = await look()) {
      const { taskId: behind, status } = open;
      const here = running.get(behind);
      if (this.#refuses(open)) throw contextBusy(contextId, behind, here ? runsHere : reasonOf(open));
      if (told !== `${behind} ${status}`)
        logger?.[status === 'dead' && !here ? 'warn' : 'info']('turn queued', { taskId, contextId, behind, status });
      told = `${behind} ${status}`;
      await (here ? here.over : this.#over(open, journal, signal));
      signal.throwIfAborted();
    }
  }

  /** Without a journal all turns of the context run here. */
  async #waitHere({ contextId, taskId, signal }: HookContext): Promise<void> {
    const { running, busy } = this.#options;
    for (let ahead = running.ahead(contextId, taskId); ahead; ahead = running.ahead(contextId, taskId)) {
      if (busy === 'reject') throw contextBusy(contextId, ahead.turn.taskId, runsHere);
      await ahead.over;
      signal.throwIfAborted();
    }
  }

  /** Resolves once a turn is over or was suspended, and after `leaseMs` at the latest: it may have died, or its journal may be gone. */
  #over({ taskId, seq }: OpenTurn, store: TaskStateStore, signal: AbortSignal): Promise<void> {
    const { deadline, leaseMs } = this.#options;
    return new Promise((resolve) => {
      const done = () => {
        watching.unsubscribe();
        stopTimer();
        signal.removeEventListener('abort', done);
        resolve();
      };
      const stopTimer = deadline.clock.schedule(leaseMs, done);
      signal.addEventListener('abort', done);
      const watching = store.follow(taskId, { from: seq + 1 }).subscribe({
        next(seen) {
          if (seen.type === 'record' && seen.record.type === 'turn.suspended') queueMicrotask(done);
        },
        error: () => {},
        complete: () => queueMicrotask(done),
      });
    });
  }

  #append(contextId: string, taskId: string, { messages, ...current }: EndedTurn): Promise<unknown> {
    return this.#ask(() => this.#options.messageStore.append(contextId, taskId, messages, current));
  }

  #keep(contextId: string, taskId: string, ended: EndedTurn): void {
    this.#unsaved.set(contextId, new Map([...(this.#unsaved.get(contextId) ?? []), [taskId, ended]]));
  }

  async #saveKept(contextId: string): Promise<void> {
    for (const [taskId, ended] of this.#unsaved.get(contextId) ?? []) await this.#append(contextId, taskId, ended);
    this.#unsaved.delete(contextId);
  }

  #ask<T>(ask: () => T | Promise<T>): Promise<T> {
    return firstValueFrom(whenReady(ask, this.#options.deadline));
  }
}

/** The run of a turn that has its place from its subscription on: which of two gets its lease first is the store's affair. */
function placed(run$: Observable<Signal>, enter: () => () => void): Observable<Signal> {
  return new Observable((to) => {
    to.add(enter());
    run$.subscribe(to);
  });
}

function reasonOf({ taskId, status }: OpenTurn): string {
  const cure = `resume("${taskId}")`;
  const end = `or end it with cancel("${taskId}"); its messages are saved either way`;
  switch (status) {
    case 'running':
      return 'runs in another process; wait for it, or set busy to "queue"';
    case 'suspended':
      return `waits for an answer or was paused; continue it with ${cure}, ${end}`;
    case 'dead':
      return `was abandoned (its process exited); continue it with ${cure}, ${end}`;
  }
}

import { firstValueFrom } from 'rxjs';
import { AgentLoop } from '../core/agent-loop.ts';
import { AgentLoopError, messageOf } from '../core/errors.ts';
import type { Extension, HookContext, TurnBeginning, TurnEnd } from '../core/extension.ts';
import { type Message, repairHistory } from '../core/messages.ts';
import { type Deadline, whenReady } from '../core/operators/when-ready.ts';
import { carryOver, compactionOf, compactionOfTurn, withCompaction } from '../extensions/carry-over.ts';
import type { TaskStateStore } from '../stores/interfaces.ts';
import type { MessageStore } from '../stores/messages/message-store.ts';
import type { BusyPolicy } from './agent-options.ts';
import type { BetweenTurns } from './between-turns.ts';
import { addedMessages, conversationName, historyLength, type OpenTurn, settleTurnsAhead } from './open-turns.ts';
import { contextBusy, type RunningTurns, runsHere } from './running-turns.ts';

export interface ConversationOptions {
  readonly messageStore: MessageStore;
  /** Where the turns are journaled, if they are. */
  readonly journal: TaskStateStore | undefined;
  readonly busy: BusyPolicy;
  readonly running: RunningTurns;
  readonly deadline: Deadline;
  /** How long another process may be silent before it counts as dead. */
  readonly leaseMs: number;
  /** The context remembers what was asked and answered, without the calls between. */
  readonly endsOnly: boolean;
  /** Where contexts are compacted, a turn begins with the summary that was made last, in place of what that stands for. */
  readonly between: BetweenTurns | undefined;
  readonly onSent: (context: HookContext, messages: readonly Message[]) => void;
  readonly onEnd: (end: TurnEnd) => void;
}

/**
 * Puts the context's history in front of what a turn is given, and saves what the turn added once its end is recorded: an open turn may
 * still add something, also in another process. The last of the extensions that are asked `beforeTurn`, so that others see, and may
 * change, only what the caller gave.
 */
export function conversation(options: ConversationOptions): Extension {
  const memory = new Conversation(options);
  return {
    name: conversationName,
    onError: 'continue',
    timeoutMs: 0,
    beforeTurn: (context) => memory.begin(context),
    afterTurn: (end) => options.onEnd(end),
    afterEnd: (end) => memory.save(end),
  };
}

class Conversation {
  readonly #options: ConversationOptions;
  /** By context, what could not be saved and no journal keeps: it is tried again before the next turn. */
  readonly #unsaved = new Map<string, ReadonlyMap<string, readonly Message[]>>();

  constructor(options: ConversationOptions) {
    this.#options = options;
  }

  /** Errors end the turn: without its history it would be another conversation. */
  async begin(context: HookContext): Promise<TurnBeginning> {
    try {
      return await this.#begin(context);
    } catch (error) {
      const code = AgentLoopError.isInstance(error) ? error.code : 'UNAVAILABLE';
      return { fail: { code, message: messageOf(error) } };
    }
  }

  async save(end: TurnEnd): Promise<void> {
    const { journal } = this.#options;
    const { contextId, taskId, state } = end;
    const began = historyLength(state) !== undefined;
    if (!began && !journal) return;
    const messages = addedMessages(state);
    try {
      await this.#append(contextId, taskId, messages);
    } catch (error) {
      if (!journal) this.#keep(contextId, taskId, messages);
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
    const { contextId, taskId } = context;
    await this.#waitHere(context);
    if (journal) {
      await this.#ask(() => messageStore.begin(contextId, taskId));
      await this.#waitElsewhere(context, journal);
    }
    await this.#saveKept(contextId);
    await this.#options.between?.settled(contextId);
    const { messages, metadata } = await this.#ask(() => messageStore.load(contextId));
    const compaction = this.#options.between ? compactionOf(metadata) : undefined;
    const history = repairHistory(carryOver(messages, compaction));
    const added = context.state.messages;
    this.#options.onSent(context, added);
    return { given: [...history, ...added], data: { history: history.length, ...(endsOnly && { endsOnly }) } };
  }

  async #waitHere({ contextId, taskId, signal }: HookContext): Promise<void> {
    const { running, busy } = this.#options;
    for (let ahead = running.ahead(contextId, taskId); ahead; ahead = running.ahead(contextId, taskId)) {
      if (busy === 'reject') throw contextBusy(contextId, ahead.turn.taskId, runsHere);
      await ahead.over;
      signal.throwIfAborted();
    }
  }

  async #waitElsewhere({ contextId, taskId, signal }: HookContext, journal: TaskStateStore): Promise<void> {
    const { messageStore, busy } = this.#options;
    const look = () => this.#ask(() => settleTurnsAhead({ messageStore, journal }, contextId, taskId));
    for (let open = await look(); open; open = await look()) {
      if (open.status !== 'running' || busy === 'reject') throw contextBusy(contextId, open.taskId, reasonOf(open));
      await this.#over(open.taskId, journal, signal);
      signal.throwIfAborted();
    }
  }

  /** Resolves once a turn of another process is over, or may have died. */
  #over(taskId: string, store: TaskStateStore, signal: AbortSignal): Promise<void> {
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
      const watching = AgentLoop.observe(taskId, { store, clock: deadline.clock }).subscribe({
        error: () => {},
        complete: () => queueMicrotask(done),
      });
    });
  }

  #append(contextId: string, taskId: string, messages: readonly Message[]): Promise<unknown> {
    return this.#ask(() => this.#options.messageStore.append(contextId, taskId, messages));
  }

  #keep(contextId: string, taskId: string, messages: readonly Message[]): void {
    this.#unsaved.set(contextId, new Map([...(this.#unsaved.get(contextId) ?? []), [taskId, messages]]));
  }

  async #saveKept(contextId: string): Promise<void> {
    for (const [taskId, messages] of this.#unsaved.get(contextId) ?? [])
      await this.#append(contextId, taskId, messages);
    this.#unsaved.delete(contextId);
  }

  #ask<T>(ask: () => T | Promise<T>): Promise<T> {
    return firstValueFrom(whenReady(ask, this.#options.deadline));
  }
}

function reasonOf({ taskId, status }: OpenTurn): string {
  const cure = `agent.resume("${taskId}")`;
  const end = `or end it with agent.cancel("${taskId}"); what it said is kept`;
  switch (status) {
    case 'running':
      return 'runs in another process; wait for it, or set busy to "queue"';
    case 'suspended':
      return `waits for an answer or was paused; go on with ${cure}, ${end}`;
    case 'dead':
      return `was left by its process; go on with ${cure}, ${end}`;
  }
}

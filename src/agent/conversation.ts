import {
  AgentLoopError,
  type ContextMetadata,
  type Extension,
  type HookContext,
  type LLMProvider,
  type Logger,
  type MaybePromise,
  type Message,
  type MessageStore,
  messageOf,
  reasonOf,
  repairHistory,
  type TaskStateStore,
  type TurnBeginning,
  type TurnEnd,
  type Usage,
} from '../core/contracts/index.ts';
import { closedMessages, type LoopState, type Predecessor, ready, readyAgain } from '../core/journal/index.ts';
import { TurnLost } from '../core/ownership/index.ts';
import {
  carryOver,
  compactConversation,
  compactionOf,
  compactionOfTurn,
  isTooLong,
  withCompaction,
} from '../extensions/compact-history.ts';
import type { Compaction } from '../extensions/context/compaction.ts';
import type { CompactionOptions } from '../extensions/context/compaction-options.ts';
import { fittingText } from '../extensions/context/shorten-messages.ts';
import type { Admission } from '../tasks/agent-loop.ts';
import { endOf, isOnPath, lastOf, newestFirst, type Path, pathTo } from './branches.ts';
import { ContextQueue, type ContextQueueOptions, isAway, isBusy } from './context-queue.ts';
import { type LoadedConversation, LoadedConversations, viewOf } from './loaded-conversations.ts';
import { conversationName, endedTurn, historyLength } from './open-turns.ts';
import type { ResolvedAgent } from './resolve-agent.ts';
import { type EndedTurn, fittingMessages, isRefusal, type StoredTurn, storeTurn } from './store-turn.ts';

/** The input of routing at the start of a team's turn. */
export interface OpeningRequest {
  /** The history of the context, and the turn's input. */
  readonly messages: readonly Message[];
  /** The turn's input. */
  readonly added: readonly Message[];
  /** The agent that answers next, from the message store. */
  readonly current: string | undefined;
  readonly context: HookContext;
}

/** Returns the agent that answers; none if the team itself does. */
export type Opening = (request: OpeningRequest) => Promise<Pick<TurnBeginning, 'agent'>>;

export interface ConversationOptions extends ContextQueueOptions {
  /** The context stores questions and answers only, without the calls in between. */
  readonly endsOnly: boolean;
  /** If contexts are compacted: a turn starts with the latest summary in place of the summarized messages. */
  readonly between: BetweenTurns | undefined;
  /** Chooses the agent of a team that answers; absent for a single agent, and not called if the caller named one. */
  readonly choose?: Opening | undefined;
  /** `agentId`: the agent that answers, if one was chosen. */
  readonly onSent: (context: HookContext, messages: readonly Message[], agentId?: string) => void;
  readonly onEnd: (end: TurnEnd) => void;
}

/**
 * Prepends the context's history to a turn's input, and saves the messages of the turn once its end is recorded: an open turn may
 * still add some, also in another process. Its `beforeTurn` runs last, so that other extensions see, and may
 * change, only the caller's input.
 */
export function conversation(options: ConversationOptions): {
  readonly extension: Extension;
  readonly admission: (contextId: string, taskId: string) => Admission;
  readonly resumption: Admission;
  readonly inOrder: Admission;
  readonly submission: ContextQueue['submit'];
} {
  const queue = new ContextQueue(options);
  const memory = new Conversation(options, queue);
  const extension: Extension = {
    name: conversationName,
    onError: 'continue',
    timeoutMs: 0,
    beforeTurn: (context) => memory.begin(context),
    afterTurn: (end) => options.onEnd(end),
    afterEnd: (end) => memory.save(end),
  };
  const { resumption, inOrder } = queue;
  return {
    extension,
    admission: (contextId, taskId) => queue.admission(contextId, taskId),
    resumption,
    inOrder,
    submission: (place, create) => queue.submit(place, create),
  };
}

/** For a child turn: emits the same events and chooses an agent in the same way, but stores nothing. */
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
 * Fails the turn with the code of an error. A busy context, and a lost child turn, such as a router's, lose the turn instead; with
 * `resumable` so does an unavailable store: the process that resumes the turn calls it again.
 */
async function failingAs(begin: () => Promise<TurnBeginning>, resumable = false): Promise<TurnBeginning> {
  try {
    return await begin();
  } catch (error) {
    if (TurnLost.isInstance(error)) throw error;
    if ((resumable && isAway(error)) || isBusy(error)) throw new TurnLost(error);
    const known = AgentLoopError.isInstance(error) ? error : undefined;
    return { fail: { code: known?.code ?? 'UNAVAILABLE', message: reasonOf(error), cause: error } };
  }
}

class Conversation {
  readonly #options: ConversationOptions;
  readonly #queue: ContextQueue;
  /** By context: turns without a journal that could not be saved; saved again before the next turn. */
  readonly #unsaved = new Map<string, ReadonlyMap<string, EndedTurn>>();
  /** Whether the journals of the turns find their messages in the store of conversations. */
  readonly #refersToMessages: boolean;

  constructor(options: ConversationOptions, queue: ContextQueue) {
    const { journal, messageStore } = options;
    this.#refersToMessages = journal?.refersTo?.(messageStore) === true;
    this.#options = options;
    this.#queue = queue;
  }

  /** An error ends the turn: without its history it would be another conversation. A turn with a journal survives an unavailable store. */
  begin(context: HookContext): Promise<TurnBeginning> {
    return failingAs(() => this.#begin(context), this.#options.journal !== undefined);
  }

  async save(end: TurnEnd): Promise<void> {
    const { journal } = this.#options;
    const { contextId, taskId, state } = end;
    const began = historyLength(state) !== undefined;
    if (!began && !journal) return;
    const ended = endedTurn(state);
    const stored = await this.#append(contextId, taskId, ended).catch((error: unknown) => {
      if (!journal) this.#keep(contextId, taskId, ended);
      throw error;
    });
    // A summary names positions in the context.
    if (stored.hasAllMessages) await this.#keepSummary(end);
  }

  /** If a summary cannot be stored, the next turn has to create one. A context that was deleted meanwhile gets none. */
  async #keepSummary({ contextId, state }: TurnEnd): Promise<void> {
    const { messageStore, between, deadline } = this.#options;
    const compaction = between ? compactionOfTurn(state) : undefined;
    if (!compaction) return;
    const loaded = await this.#ask(() => LoadedConversations.of(messageStore).load(contextId));
    const { metadata, version } = loaded;
    const placed = onPath(compaction, pathTo(loaded));
    await storeSummary(placed, (short) =>
      ready(
        () => messageStore.setMetadata(contextId, withCompaction(metadata, short), { version, minTotal: 1 }),
        deadline,
      ),
    );
  }

  async #begin(context: HookContext): Promise<TurnBeginning> {
    const { messageStore, endsOnly } = this.#options;
    const loaded = LoadedConversations.of(messageStore);
    const { contextId } = context;
    const waited = await this.#queue.turn(context);
    if (typeof waited !== 'number') return { fail: { code: waited.code, message: waited.message, cause: waited } };
    await this.#saveKept(contextId);
    await this.#options.between?.settled(contextId);
    const conversation = await this.#ask(() => loaded.load(contextId));
    const { metadata, agentId: current } = conversation;
    const { follows, copied, retried, taskId } = context.state.turn;
    const end = follows && (await this.#ask(() => this.#endOf(follows, contextId, conversation)));
    // The turn that a fork copies may have stored nothing.
    const isFork = copied !== undefined && !retried && follows?.before !== undefined;
    if (follows && end === undefined && !isFork) return noPredecessor(follows, contextId);
    const path = pathTo(conversation, end);
    const compaction = this.#options.between ? compactionOn(path, metadata) : undefined;
    const carried = repairHistory(carryOver(path.messages, compaction));
    const { characters = maxHistoryLength } = conversation;
    const history = characters < shortLength ? carried : fittingMessages(carried, maxHistoryLength);
    const added = context.state.messages;
    const given = [...history, ...added];
    const named = context.state.turn.settings.agentId !== undefined;
    const chosen = named ? undefined : await this.#options.choose?.({ messages: given, added, current, context });
    this.#options.onSent(context, added, chosen?.agent?.to);
    const givenFrom = this.#refersToMessages ? viewOf(given, contextId, conversation) : undefined;
    const total = conversation.messages.length;
    const branches = end !== undefined && end !== total;
    const data = {
      history: history.length,
      end: end ?? total,
      ...(branches && { branches }),
      ...(endsOnly && { endsOnly }),
      ...(retried && { taskId }),
    };
    const opening = { given, earlier: history.length, ...(givenFrom && { givenFrom }) };
    return { ...opening, ...(waited > 0 && { waitedMs: waited }), data, ...chosen };
  }

  #endOf(follows: Predecessor, contextId: string, { messages, lastId }: LoadedConversation) {
    const newest = newestFirst(this.#options.messageStore, contextId, lastId);
    return endOf(follows, messages.length === 0 ? [] : newest, messages.length);
  }

  async #append(contextId: string, taskId: string, ended: EndedTurn): Promise<StoredTurn> {
    const { messageStore, journal, logger } = this.#options;
    const stored = await storeTurn(
      ({ messages, ...current }) =>
        journal
          ? this.#appendRegistered(journal, { contextId, taskId, messages, current })
          : this.#ask(() => messageStore.append(contextId, taskId, messages, current)),
      ended,
    );
    const { refusal, hasAllMessages } = stored;
    if (refusal) logger?.warn('messages shortened', { taskId, contextId, hasAllMessages, error: refusal.message });
    return stored;
  }

  /**
   * Appends a turn that is registered in its context. One that is not was saved, or its context was deleted. While its journal exists only the
   * context was, or the turn is a fork or a retry, which runs without a registration: it is registered then. The journal is read between the
   * registration and the append, so that nothing is written back when a turn is erased, journal first, at any moment.
   */
  async #appendRegistered(
    journal: TaskStateStore,
    { contextId, taskId, messages, current }: RegisteredTurn,
  ): Promise<void> {
    const { messageStore } = this.#options;
    const append = () => messageStore.append(contextId, taskId, messages, { ...current, registered: true });
    const isErased = async () => (await this.#ask(() => journal.describe(taskId))) === null;
    if ((await this.#ask(append)).appended || (await isErased())) return;
    if ((await this.#ask(() => messageStore.begin(contextId, taskId))) === 'saved') return;
    if (await isErased()) await this.#ask(() => messageStore.withdraw?.(contextId, taskId));
    else await this.#ask(append);
  }

  #keep(contextId: string, taskId: string, ended: EndedTurn): void {
    this.#unsaved.set(contextId, new Map([...(this.#unsaved.get(contextId) ?? []), [taskId, ended]]));
  }

  async #saveKept(contextId: string): Promise<void> {
    for (const [taskId, ended] of this.#unsaved.get(contextId) ?? []) await this.#append(contextId, taskId, ended);
    this.#unsaved.delete(contextId);
  }

  #ask<T>(ask: () => T | Promise<T>): Promise<T> {
    return readyAgain(ask, this.#options.deadline);
  }
}

interface RegisteredTurn {
  readonly contextId: string;
  readonly taskId: string;
  readonly messages: readonly Message[];
  readonly current: Omit<EndedTurn, 'messages'>;
}

/** The maximum size of a history in one record of a journal, in characters of its JSON: a string of JavaScript has at most four times as many. */
const maxHistoryLength = 128 * 1024 * 1024;
/** A shorter conversation has no longer history, with its summary and the results that were missing. Characters. */
const shortLength = maxHistoryLength / 8;

interface BetweenTurnsOptions {
  readonly messageStore: MessageStore;
  readonly compaction: CompactionOptions;
  readonly provider: LLMProvider;
  readonly model: string | undefined;
  readonly logger: Logger | undefined;
  readonly onUsage: (usage: Usage) => void;
}

/** For an agent; `undefined` if its contexts are not compacted. */
export function betweenTurnsOf(
  { settings, messageStore, loop }: ResolvedAgent,
  onUsage: BetweenTurnsOptions['onUsage'],
): BetweenTurns | undefined {
  const { contextManagement, logger } = settings;
  if (contextManagement === null || contextManagement?.compaction === null) return undefined;
  const { llmProvider: provider, model } = loop;
  const compaction = contextManagement?.compaction ?? {};
  return new BetweenTurns({ messageStore, compaction, provider, model, logger, onUsage });
}

/** Compacts contexts after the end of their turns, so that only the next turn of the same context waits for it. */
export class BetweenTurns {
  readonly #options: BetweenTurnsOptions;
  readonly #leave = new AbortController();
  readonly #works = new Map<string, Promise<void>>();

  constructor(options: BetweenTurnsOptions) {
    this.#options = options;
  }

  /**
   * Compacts a context after a turn if it has become too long. The turn has what it was given of the context, and what it adds: if that is short
   * enough, nothing is read. What other turns have added meanwhile, the next turn counts. Errors are logged: the next turn checks again.
   */
  start(contextId: string, ended: LoopState | undefined): void {
    if (this.#leave.signal.aborted || this.#works.has(contextId)) return;
    const work = this.#compact(contextId, ended)
      .catch((error: unknown) =>
        this.#options.logger?.warn('compaction failed', { contextId, error: messageOf(error) }),
      )
      .finally(() => this.#works.delete(contextId));
    this.#works.set(contextId, work);
  }

  /** Resolves once no compaction of the context is running. */
  async settled(contextId: string): Promise<void> {
    await this.#works.get(contextId);
  }

  /** Aborts running compactions; resolves once they have stopped. */
  async close(): Promise<void> {
    this.#leave.abort(new Error('the agent is closed'));
    await Promise.all(this.#works.values());
  }

  async #compact(contextId: string, ended: LoopState | undefined): Promise<void> {
    const { messageStore, compaction: options, provider, model, onUsage } = this.#options;
    if (ended && !isTooLong(closedMessages(ended), options, { provider, model })) return;
    const loaded = await LoadedConversations.of(messageStore).load(contextId);
    const { metadata, version } = loaded;
    const path = pathTo(loaded);
    const compacted = await compactConversation(path.messages, options, {
      provider,
      ...(model === undefined ? {} : { model }),
      compaction: compactionOn(path, metadata),
      signal: this.#leave.signal,
      noteUsage: onUsage,
    });
    if (!compacted) return;
    onUsage(compacted.usage);
    const minTotal = loaded.messages.length;
    await storeSummary(onPath(compacted.compaction, path), (short) =>
      messageStore.setMetadata(contextId, withCompaction(metadata, short), { version, minTotal }),
    );
  }
}

function noPredecessor({ after, before = after }: Predecessor, contextId: string): TurnBeginning {
  const message = `Context "${contextId}" has no message and no ended turn "${before}"; give the id of one that its message store lists.`;
  return { fail: { code: 'NOT_FOUND', message } };
}

/** The compaction in a context's metadata, if it replaces messages of that path. */
function compactionOn(path: Path, metadata: ContextMetadata): Compaction | undefined {
  const compaction = compactionOf(metadata);
  return compaction && isOnPath(path, compaction) ? compaction : undefined;
}

function onPath(compaction: Compaction, path: Path): Compaction {
  return path.places ? { ...compaction, last: lastOf(path, compaction.upTo) } : compaction;
}

/** The sizes of a stored summary, the preferred first. A model may write any number of characters. */
const summaryLengths = [256 * 1024, 64 * 1024, 16 * 1024, 4 * 1024];

/** Stores a summary at a size that the store accepts: with none each later turn would pay for another. Rejects with the last refusal. */
async function storeSummary(
  compaction: Compaction,
  set: (compaction: Compaction) => MaybePromise<unknown>,
): Promise<void> {
  let refusal: unknown;
  for (const most of summaryLengths) {
    try {
      await set({ ...compaction, summary: fittingText(compaction.summary, most) });
      return;
    } catch (error) {
      if (!isRefusal(error)) throw error;
      refusal = error;
    }
  }
  throw refusal;
}

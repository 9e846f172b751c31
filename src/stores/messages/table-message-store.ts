import {
  type Clock,
  type ContextMetadata,
  type ContextPage,
  type ContextQuery,
  type Conversation,
  type LoadOptions,
  type Message,
  type MessagePage,
  type MessageQuery,
  type MessageStore,
  type MetadataOptions,
  systemClock,
  type TurnAppendOptions,
} from '../../core/contracts/index.ts';
import { aClock, assertOptions, type OptionRules } from '../../options/option-rules.ts';
import { aMost, checkArguments, encodeMetadata, messageStoreArguments } from '../check-arguments.ts';
import { type Answer, MemoryTable, type Steps, type Table, type Timing } from '../table/table.ts';
import { type ContextHead, ContextRows, newContextHead } from './context-rows.ts';
import {
  assertAgentId,
  assertContextId,
  assertLoadOptions,
  assertTurn,
  assertVersion,
  contextQueryOf,
  encodeTurn,
  messagePageOf,
  pageOf,
  pageRequestOf,
  pageSpan,
  spanOf,
  summaryOf,
  totalConflict,
  versionConflict,
} from './stored-messages.ts';

/** Limits the number of stored contexts. */
interface ContextLimit {
  /** Called with each context that was written and how many of its turns are open. Returns the ids of those to delete now. */
  written(contextId: string, openTurns: number): readonly string[];
  deleted(contextId: string): void;
}

interface TableMessageOptions {
  readonly clock: Clock;
  /** Default: all are kept. */
  readonly limit?: ContextLimit | undefined;
  /**
   * Keeps an index of the contexts without an open turn by the time of their last write. Those that were written longer ago than `keepMs`, which may
   * be infinite, are deleted when others are written. Default: no index, and all are kept.
   */
  readonly retention?: { readonly keepMs: number } | undefined;
}

/** How many contexts one change deletes at most: more than one, so that their number shrinks. */
const expiredAtOnce = 4;
/** How many contexts of older versions one change adds to the index. */
const indexedAtOnce = 50;

/** Contexts in a table: every change is one transaction. */
export class TableMessageStore<Read extends Timing, Write extends Timing> implements MessageStore {
  readonly #table: Table<Read, Write>;
  readonly #clock: Clock;
  readonly #limit: ContextLimit | undefined;
  readonly #retention: TableMessageOptions['retention'];

  constructor(table: Table<Read, Write>, { clock, limit, retention }: TableMessageOptions) {
    this.#table = table;
    this.#clock = clock;
    this.#limit = limit;
    this.#retention = retention;
  }

  begin(contextId: string, taskId: string): Answer<Write, 'open' | 'saved'> {
    return this.#table.write(() => {
      assertTurn(contextId, taskId);
      return (rows) => this.#begin(new ContextRows(rows), contextId, taskId);
    });
  }

  *#begin(contexts: ContextRows, contextId: string, taskId: string): Steps<'open' | 'saved'> {
    const turn = yield* contexts.turn(contextId, taskId);
    if (turn !== undefined) return turn === 'saved' ? 'saved' : 'open';
    const head = yield* this.#head(contexts, contextId);
    contexts.putOpenTurn(contextId, taskId, head.begun);
    yield* this.#put(contexts, { ...head, begun: head.begun + 1, open: head.open + 1 });
    return 'open';
  }

  withdraw(contextId: string, taskId: string): Answer<Write, void> {
    return this.#table.write(() => {
      assertTurn(contextId, taskId);
      return (rows) => this.#withdraw(new ContextRows(rows), contextId, taskId);
    });
  }

  *#withdraw(contexts: ContextRows, contextId: string, taskId: string): Steps<void> {
    const turn = yield* contexts.turn(contextId, taskId);
    if (typeof turn !== 'object') return;
    const head = yield* this.#head(contexts, contextId);
    contexts.removeOpenTurn(contextId, taskId, turn.begun);
    const { total, version, agentId } = head;
    const hasMore = total > 0 || version > 0 || agentId !== undefined || (yield* contexts.hasTurns(contextId));
    if (hasMore) yield* this.#put(contexts, { ...head, open: head.open - 1 });
    else yield* this.#delete(contexts, contextId);
  }

  append(
    contextId: string,
    taskId: string,
    messages: readonly Message[],
    options: TurnAppendOptions = {},
  ): Answer<Write, { readonly appended: boolean }> {
    return this.#table.write(() => {
      const texts = encodeTurn({ ...options, contextId, taskId, messages, now: this.#clock.now() });
      return (rows) => this.#append(new ContextRows(rows), contextId, { ...options, taskId, texts });
    });
  }

  *#append(
    contexts: ContextRows,
    contextId: string,
    { taskId, texts, agentId, registered = false }: TurnAppendOptions & { taskId: string; texts: readonly string[] },
  ): Steps<{ readonly appended: boolean }> {
    const turn = yield* contexts.turn(contextId, taskId);
    if (turn === 'saved' || (registered && turn === undefined)) return { appended: false };
    const head = yield* this.#head(contexts, contextId);
    for (const [index, text] of texts.entries()) contexts.putMessage(contextId, head.total + index, text);
    contexts.putSavedTurn(contextId, taskId, turn);
    const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), head.bytes ?? 0);
    yield* this.#put(contexts, {
      ...head,
      total: head.total + texts.length,
      open: head.open - (turn === undefined ? 0 : 1),
      ...(agentId !== undefined && { agentId }),
      // An unknown size stays unknown.
      ...(head.bytes !== undefined && { bytes }),
    });
    return { appended: true };
  }

  setAgent(contextId: string, agentId: string): Answer<Write, void> {
    return this.#table.write(() => {
      assertContextId(contextId);
      assertAgentId(agentId, 'needed');
      return (rows) => this.#change(new ContextRows(rows), contextId, { agentId });
    });
  }

  load(contextId: string, options: LoadOptions = {}): Answer<Read, Conversation> {
    return this.#table.read(() => {
      assertContextId(contextId);
      assertLoadOptions(options);
      return (rows) => load(new ContextRows(rows), contextId, options);
    });
  }

  list(contextId: string, query: MessageQuery = {}): Answer<Read, MessagePage> {
    return this.#table.read(() => {
      assertContextId(contextId);
      const request = pageRequestOf(query);
      return function* (rows) {
        const contexts = new ContextRows(rows);
        const { total = 0, createdAt: since = 0 } = (yield* contexts.findHead(contextId)) ?? {};
        const span = pageSpan(request, total);
        const messages = yield* contexts.messages(contextId, span.from, span.to);
        const { position } = request;
        const isThere = position >= 0 && position < total;
        const [before] = isThere ? yield* contexts.messages(contextId, position, position + 1) : [];
        return messagePageOf(request, { contextId, ...span, total, since, messages, before });
      };
    });
  }

  setMetadata(contextId: string, metadata: ContextMetadata, options: MetadataOptions = {}): Answer<Write, number> {
    return this.#table.write(() => {
      assertContextId(contextId);
      assertVersion(options);
      const text = encodeMetadata(metadata);
      return (rows) => this.#setMetadata(new ContextRows(rows), contextId, { ...options, text });
    });
  }

  *#setMetadata(
    contexts: ContextRows,
    contextId: string,
    { text, version: expected, minTotal = 0 }: MetadataOptions & { readonly text: string },
  ): Steps<number> {
    const { version, total } = yield* this.#head(contexts, contextId);
    if (total < minTotal) throw totalConflict(contextId, minTotal, total);
    if (expected !== undefined && expected !== version) throw versionConflict(contextId, expected, version);
    contexts.putMetadata(contextId, text);
    yield* this.#change(contexts, contextId, { version: version + 1 });
    return version + 1;
  }

  contexts(query: ContextQuery = {}): Answer<Read, ContextPage> {
    return this.#table.read(() => {
      const { limit, after } = contextQueryOf(query);
      return function* (rows) {
        return pageOf((yield* new ContextRows(rows).heads(after, limit + 1)).map(summaryOf), limit);
      };
    });
  }

  delete(contextId: string): Answer<Write, void> {
    return this.#table.write(() => {
      assertContextId(contextId);
      return (rows) => this.#delete(new ContextRows(rows), contextId);
    });
  }

  *#delete(contexts: ContextRows, contextId: string): Steps<void> {
    if (this.#retention) yield* contexts.putIdle(contextId, undefined);
    yield* contexts.remove(contextId);
    this.#limit?.deleted(contextId);
  }

  *#head(contexts: ContextRows, contextId: string): Steps<ContextHead> {
    return (yield* contexts.findHead(contextId)) ?? newContextHead(contextId, this.#clock.now());
  }

  *#deleteExpired(contexts: ContextRows, keepMs: number): Steps<void> {
    if (keepMs === Number.POSITIVE_INFINITY) return;
    yield* contexts.indexIdle(indexedAtOnce);
    const before = this.#clock.now() - keepMs;
    for (const contextId of yield* contexts.idleBefore(before, expiredAtOnce)) yield* this.#delete(contexts, contextId);
  }

  *#change(contexts: ContextRows, contextId: string, change: Partial<ContextHead>): Steps<void> {
    yield* this.#put(contexts, { ...(yield* this.#head(contexts, contextId)), ...change });
  }

  *#put(contexts: ContextRows, head: ContextHead): Steps<void> {
    const changed = { ...head, updatedAt: this.#clock.now() };
    if (this.#retention) yield* contexts.putIdle(head.contextId, changed);
    contexts.putHead(changed);
    if (this.#retention) yield* this.#deleteExpired(contexts, this.#retention.keepMs);
    for (const contextId of this.#limit?.written(head.contextId, head.open) ?? [])
      yield* this.#delete(contexts, contextId);
  }
}

function* load(contexts: ContextRows, contextId: string, options: LoadOptions): Steps<Conversation> {
  const { total = 0, version = 0, agentId } = (yield* contexts.findHead(contextId)) ?? {};
  const { from, to } = spanOf(total, options);
  const messages = (yield* contexts.messages(contextId, from, to)).map(({ message }) => message);
  const metadata = yield* contexts.metadata(contextId);
  const agent = agentId === undefined ? {} : { agentId };
  return {
    contextId,
    messages,
    from,
    total,
    metadata,
    version,
    ...agent,
    openTurns: yield* contexts.openTurns(contextId),
  };
}

/** Options of `InMemoryMessageStore`. */
export interface InMemoryMessageStoreOptions {
  /** Replaced in tests. Default: the system clock. */
  readonly clock?: Clock | undefined;
  /** How many contexts are kept; beyond it, the least recently written one without an open turn is deleted. Default: all. */
  readonly maxContexts?: number | undefined;
}

const rules: OptionRules<InMemoryMessageStoreOptions> = { clock: aClock, maxContexts: aMost(1) };

/**
 * Stores contexts in the memory of this process: for tests, development, and agents that need not outlive it.
 *
 * Every method answers synchronously, without a promise, and throws instead of rejecting. Messages are stored as JSON: `load` returns new objects.
 * Several agents of one process may use one instance.
 *
 * Memory: every context stays until `delete`, or until `maxContexts` others were written after it.
 */
export class InMemoryMessageStore extends TableMessageStore<'now', 'now'> {
  static {
    checkArguments(InMemoryMessageStore.prototype, messageStoreArguments);
  }

  /** Errors: `INVALID_CONFIG`, naming the option. */
  constructor(options: InMemoryMessageStoreOptions = {}) {
    assertOptions('InMemoryMessageStore', options, rules);
    const { clock = systemClock, maxContexts = Number.POSITIVE_INFINITY } = options;
    const limit = maxContexts === Number.POSITIVE_INFINITY ? undefined : keepingNewest(maxContexts);
    super(new MemoryTable(), { clock, limit });
  }
}

function keepingNewest(most: number): ContextLimit {
  /** Those with an open turn, which are never deleted. */
  const open = new Set<string>();
  /** The others, the least recently written first. */
  const idle = new Set<string>();
  const forget = (contextId: string) => {
    open.delete(contextId);
    idle.delete(contextId);
  };
  return {
    written(written, openTurns) {
      forget(written);
      (openTurns > 0 ? open : idle).add(written);
      const old: string[] = [];
      for (const contextId of idle) {
        if (open.size + idle.size - old.length <= most || contextId === written) break;
        old.push(contextId);
      }
      return old;
    },
    deleted: forget,
  };
}

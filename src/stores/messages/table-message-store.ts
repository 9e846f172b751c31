import type {
  Clock,
  ContextMetadata,
  ContextPage,
  ContextQuery,
  Conversation,
  LoadOptions,
  Message,
  MessagePage,
  MessageQuery,
  MessageStore,
  MetadataOptions,
  TurnAppendOptions,
} from '../../core/contracts/index.ts';
import { encodeMetadata } from '../check-metadata.ts';
import type { Answer, Steps, Table, Timing } from '../table/table.ts';
import {
  assertAgentId,
  assertContextId,
  assertLoadOptions,
  assertTurn,
  assertVersion,
  contextQueryOf,
  encodeTurn,
  versionConflict,
} from './check-input.ts';
import { type ContextHead, ContextRows, newContextHead } from './context-rows.ts';
import { pageOf, summaryOf } from './context-summary.ts';
import { messagePageOf, pageRequestOf, pageSpan, spanOf } from './stored-messages.ts';

/** Which contexts a store keeps. */
export interface ContextLimit {
  /** Called with each context that was written to. Gives the ids of those to delete now. */
  written(head: ContextHead): readonly string[];
  deleted(contextId: string): void;
}

export interface TableMessageOptions {
  readonly clock: Clock;
  /** Default: all are kept. */
  readonly limit?: ContextLimit | undefined;
}

/** Contexts in a table: every change is one transaction. */
export class TableMessageStore<Read extends Timing, Write extends Timing> implements MessageStore {
  readonly #table: Table<Read, Write>;
  readonly #clock: Clock;
  readonly #limit: ContextLimit | undefined;

  constructor(table: Table<Read, Write>, { clock, limit }: TableMessageOptions) {
    this.#table = table;
    this.#clock = clock;
    this.#limit = limit;
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

  append(
    contextId: string,
    taskId: string,
    messages: readonly Message[],
    options: TurnAppendOptions = {},
  ): Answer<Write, { readonly appended: boolean }> {
    return this.#table.write(() => {
      const texts = encodeTurn({ ...options, contextId, taskId, messages, now: this.#clock.now() });
      const { agentId } = options;
      return (rows) => this.#append(new ContextRows(rows), contextId, { taskId, texts, agentId });
    });
  }

  *#append(
    contexts: ContextRows,
    contextId: string,
    { taskId, texts, agentId }: { taskId: string; texts: readonly string[]; agentId: string | undefined },
  ): Steps<{ readonly appended: boolean }> {
    const turn = yield* contexts.turn(contextId, taskId);
    if (turn === 'saved') return { appended: false };
    const head = yield* this.#head(contexts, contextId);
    for (const [index, text] of texts.entries()) contexts.putMessage(contextId, head.total + index, text);
    contexts.putSavedTurn(contextId, taskId, turn);
    const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), head.bytes ?? 0);
    yield* this.#put(contexts, {
      ...head,
      total: head.total + texts.length,
      open: head.open - (turn === undefined ? 0 : 1),
      ...(agentId !== undefined && { agentId }),
      // Unknown stays unknown.
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
      return (rows) => this.#setMetadata(new ContextRows(rows), contextId, { text, version: options.version });
    });
  }

  *#setMetadata(
    contexts: ContextRows,
    contextId: string,
    { text, version: expected }: { readonly text: string; readonly version: number | undefined },
  ): Steps<number> {
    const { version } = yield* this.#head(contexts, contextId);
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
    yield* contexts.remove(contextId);
    this.#limit?.deleted(contextId);
  }

  *#head(contexts: ContextRows, contextId: string): Steps<ContextHead> {
    return (yield* contexts.findHead(contextId)) ?? newContextHead(contextId, this.#clock.now());
  }

  *#change(contexts: ContextRows, contextId: string, change: Partial<ContextHead>): Steps<void> {
    yield* this.#put(contexts, { ...(yield* this.#head(contexts, contextId)), ...change });
  }

  *#put(contexts: ContextRows, head: ContextHead): Steps<void> {
    contexts.putHead({ ...head, updatedAt: this.#clock.now() });
    for (const contextId of this.#limit?.written(head) ?? []) yield* this.#delete(contexts, contextId);
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

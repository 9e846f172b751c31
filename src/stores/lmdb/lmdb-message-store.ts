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
import { checkArguments, messageStoreArguments } from '../check-arguments.ts';
import { encodeMetadata } from '../check-metadata.ts';
import { assertKnownOptions, type OptionNames } from '../known-options.ts';
import {
  assertAgentId,
  assertContextId,
  assertLoadOptions,
  assertTurn,
  assertVersion,
  contextQueryOf,
  encodeMessages,
  versionConflict,
} from '../messages/check-input.ts';
import { pageOf, summaryOf } from '../messages/context-summary.ts';
import { messagePageOf, pageRequestOf, pageSpan, spanOf, stampsOf } from '../messages/stored-messages.ts';
import { type ContextHead, ContextTable, newContextHead } from './context-table.ts';
import { LmdbDatabase } from './lmdb-database.ts';
import { assertStorePath } from './store-path.ts';

export interface LmdbMessageStoreOptions {
  /** The folder of the store, made where it is missing; on a local disk. May be that of an `LmdbStateStore`. */
  readonly path: string;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

const optionNames: OptionNames<LmdbMessageStoreOptions> = { path: true, clock: true };

/**
 * Keeps contexts in an LMDB file, shared by any number of processes of one machine, also with journals in the same file.
 *
 * Every change is one write transaction whose promise resolves once it is on the disk, so `kill -9` at any instruction leaves all of a
 * turn or nothing. `load` and `contexts` answer at once, from the memory map. Errors besides the contract's: `INVALID_CONFIG`,
 * `MISSING_PACKAGE`, `UNAVAILABLE` and `POISON` at construction, synchronously; `FULL` where the disk is, `UNAVAILABLE` where it
 * cannot be written to or after `close`.
 *
 * Memory: what `load` gives. Contexts stay in the file until `delete`, whose space is used again.
 */
export class LmdbMessageStore implements MessageStore {
  static {
    checkArguments(LmdbMessageStore.prototype, messageStoreArguments);
  }

  readonly #clock: Clock;
  readonly #database: LmdbDatabase;
  readonly #contexts: ContextTable;

  constructor(options: LmdbMessageStoreOptions) {
    assertKnownOptions('LmdbMessageStore', options, optionNames);
    const { path, clock = systemClock } = options;
    assertStorePath(path);
    this.#clock = clock;
    this.#database = new LmdbDatabase(path);
    this.#contexts = new ContextTable(this.#database);
  }

  async begin(contextId: string, taskId: string): Promise<'open' | 'saved'> {
    assertTurn(contextId, taskId);
    return this.#database.write(() => {
      const turn = this.#contexts.turn(contextId, taskId);
      if (turn !== undefined) return turn === 'saved' ? 'saved' : 'open';
      const head = this.#head(contextId);
      this.#contexts.putOpenTurn(contextId, taskId, head.begun);
      this.#put({ ...head, begun: head.begun + 1, open: head.open + 1 });
      return 'open';
    });
  }

  async append(
    contextId: string,
    taskId: string,
    messages: readonly Message[],
    { agentId, createdAt }: TurnAppendOptions = {},
  ): Promise<{ readonly appended: boolean }> {
    assertTurn(contextId, taskId);
    assertAgentId(agentId);
    const stamps = stampsOf(messages, { taskId, createdAt, now: this.#clock.now() });
    const texts = encodeMessages(taskId, messages, stamps);
    return this.#database.write(() => {
      const turn = this.#contexts.turn(contextId, taskId);
      if (turn === 'saved') return { appended: false };
      const head = this.#head(contextId);
      for (const [index, text] of texts.entries()) this.#contexts.putMessage(contextId, head.total + index, text);
      this.#contexts.putSavedTurn(contextId, taskId, turn);
      const open = head.open - (turn === undefined ? 0 : 1);
      const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), head.bytes ?? 0);
      this.#put({
        ...head,
        total: head.total + texts.length,
        open,
        ...(agentId !== undefined && { agentId }),
        // Unknown stays unknown.
        ...(head.bytes !== undefined && { bytes }),
      });
      return { appended: true };
    });
  }

  async setAgent(contextId: string, agentId: string): Promise<void> {
    assertContextId(contextId);
    assertAgentId(agentId, 'needed');
    await this.#database.write(() => this.#put({ ...this.#head(contextId), agentId }));
  }

  load(contextId: string, options: LoadOptions = {}): Conversation {
    assertContextId(contextId);
    assertLoadOptions(options);
    return this.#database.read(() => {
      const { total = 0, version = 0, agentId } = this.#contexts.findHead(contextId) ?? {};
      const { from, to } = spanOf(total, options);
      const messages = this.#contexts.messages(contextId, from, to).map(({ message }) => message);
      const metadata = this.#contexts.metadata(contextId);
      const agent = agentId === undefined ? {} : { agentId };
      const openTurns = this.#contexts.openTurns(contextId);
      return { contextId, messages, from, total, metadata, version, ...agent, openTurns };
    });
  }

  list(contextId: string, query: MessageQuery = {}): MessagePage {
    assertContextId(contextId);
    const request = pageRequestOf(query);
    return this.#database.read(() => {
      const { total = 0, createdAt: since = 0 } = this.#contexts.findHead(contextId) ?? {};
      const span = pageSpan(request, total);
      const messages = this.#contexts.messages(contextId, span.from, span.to);
      const { position } = request;
      const isThere = position >= 0 && position < total;
      const [before] = isThere ? this.#contexts.messages(contextId, position, position + 1) : [];
      return messagePageOf(request, { contextId, ...span, total, since, messages, before });
    });
  }

  async setMetadata(contextId: string, metadata: ContextMetadata, options: MetadataOptions = {}): Promise<number> {
    assertContextId(contextId);
    assertVersion(options);
    const text = encodeMetadata(metadata);
    return this.#database.write(() => {
      const head = this.#head(contextId);
      const { version = head.version } = options;
      if (version !== head.version) throw versionConflict(contextId, version, head.version);
      this.#contexts.putMetadata(contextId, text);
      this.#put({ ...head, version: version + 1 });
      return version + 1;
    });
  }

  contexts(query: ContextQuery = {}): ContextPage {
    const { limit, after } = contextQueryOf(query);
    const heads = this.#database.read(() => this.#contexts.heads(after, limit + 1));
    return pageOf(heads.map(summaryOf), limit);
  }

  async delete(contextId: string): Promise<void> {
    assertContextId(contextId);
    await this.#database.write(() => this.#contexts.remove(contextId));
  }

  /** Waits for what was sent to be written, and closes the file. Again: does nothing. */
  close(): Promise<void> {
    return this.#database.close();
  }

  #head(contextId: string): ContextHead {
    return this.#contexts.findHead(contextId) ?? newContextHead(contextId, this.#clock.now());
  }

  #put(head: ContextHead): void {
    this.#contexts.putHead({ ...head, updatedAt: this.#clock.now() });
  }
}

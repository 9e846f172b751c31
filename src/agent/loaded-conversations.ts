import {
  type Conversation,
  frozenCopies,
  type Message,
  type MessageStore,
  type MessageView,
  type StoredMessage,
  stableJson,
} from '../core/contracts/index.ts';
import { hasBranches } from './branches.ts';

/** What a turn needs of its context. */
export interface LoadedConversation extends Pick<Conversation, 'messages' | 'metadata' | 'version' | 'agentId'> {
  /** The id of the last message; absent if it is not known. */
  readonly lastId?: string;
  /** Whether some of the messages begin a branch. */
  readonly isTree: boolean;
  /** Characters of their JSON; absent if they were not counted. */
  readonly characters?: number;
}

/** The messages of a context up to one of them. */
interface Known {
  readonly messages: readonly Message[];
  /** The id of the last one. */
  readonly lastId: string;
  readonly isTree: boolean;
  /** Characters of their JSON. */
  readonly characters: number;
}

const mostContexts = 64;
const mostCharacters = 32 * 1024 * 1024;

const ofStores = new WeakMap<MessageStore, LoadedConversations>();

/**
 * The contexts of a message store that this process read last, so that a turn reads, parses and checks only what was added since. Other processes may
 * add messages, and delete contexts: a context whose last known message is gone is read anew. The messages are frozen copies, since later turns get
 * the same objects. Memory: the least recently read contexts go beyond 64 of them, or beyond 32 Mi characters of JSON.
 */
export class LoadedConversations {
  readonly #store: MessageStore;
  /** The least recently read first. */
  readonly #known = new Map<string, Known>();
  #characters = 0;

  private constructor(store: MessageStore) {
    this.#store = store;
  }

  /** Those of a store: all agents of this process that use it share them. */
  static of(store: MessageStore): LoadedConversations {
    const found = ofStores.get(store) ?? new LoadedConversations(store);
    ofStores.set(store, found);
    return found;
  }

  /** Errors: those of the store. */
  async load(contextId: string): Promise<LoadedConversation> {
    const known = this.#known.get(contextId);
    return (known && (await this.#readOn(contextId, known))) ?? this.#readAll(contextId);
  }

  /** Reads what was added; `undefined` if the context is another one by now. */
  async #readOn(contextId: string, known: Known): Promise<LoadedConversation | undefined> {
    const [{ total, ...head }, added] = await Promise.all([
      this.#store.load(contextId, { limit: 0 }),
      this.#messagesAfter(contextId, known.lastId),
    ]);
    // Another process may have added or removed some in between.
    if (!added || known.messages.length + added.length !== total) {
      this.#forget(contextId);
      return undefined;
    }
    const lastId = added.at(-1)?.id ?? known.lastId;
    return { ...head, lastId, ...this.#keep(contextId, known, { added: added.map(({ message }) => message), lastId }) };
  }

  /** `undefined` if the context does not have that message any more, or the store does not answer. */
  async #messagesAfter(contextId: string, after: string): Promise<readonly StoredMessage[] | undefined> {
    const all: StoredMessage[] = [];
    try {
      for (let next: string | undefined = after; next !== undefined; ) {
        const page = await this.#store.list(contextId, { after: next, limit: 1_000 });
        all.push(...page.messages);
        next = page.next;
      }
    } catch {
      // Also for another failure: what `load` then says is the error of the store.
      return undefined;
    }
    return all;
  }

  async #readAll(contextId: string): Promise<LoadedConversation> {
    const loaded = await this.#store.load(contextId);
    const last = loaded.messages.at(-1);
    const isTree = hasBranches(loaded.messages);
    if (last === undefined) return { ...loaded, isTree };
    const end = await this.#last(contextId);
    // Another process may have added a message in between.
    if (!end || stableJson(end.message) !== stableJson(last)) return { ...loaded, isTree };
    const none = { messages: [], lastId: end.id, isTree, characters: 0 };
    const { id: lastId } = end;
    return { ...loaded, lastId, ...this.#keep(contextId, none, { added: loaded.messages, lastId }) };
  }

  async #last(contextId: string): Promise<StoredMessage | undefined> {
    try {
      const { messages } = await this.#store.list(contextId, { order: 'newest-first', limit: 1 });
      return messages[0];
    } catch {
      return undefined;
    }
  }

  /** Returns all messages. Those that no store of this package would keep are not kept here either. */
  #keep(
    contextId: string,
    known: Known,
    { added, lastId }: { readonly added: readonly Message[]; readonly lastId: string },
  ): Pick<LoadedConversation, 'messages' | 'isTree' | 'characters'> {
    this.#forget(contextId);
    const isTree = known.isTree || hasBranches(added);
    const copied = frozenCopies(added);
    if (copied === undefined) return { messages: [...known.messages, ...added], isTree };
    const messages = [...known.messages, ...copied.messages];
    const characters = known.characters + copied.characters;
    this.#known.set(contextId, { messages, lastId, isTree, characters });
    this.#characters += characters;
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= mostContexts && this.#characters <= mostCharacters) break;
      this.#forget(oldest);
    }
    return { messages, isTree, characters };
  }

  #forget(contextId: string): void {
    this.#characters -= this.#known.get(contextId)?.characters ?? 0;
    this.#known.delete(contextId);
  }
}

/** Finds the messages of a list in a loaded context; `undefined` if it has none of them, or its last message is not known. */
export function viewOf(
  list: readonly Message[],
  contextId: string,
  { messages: stored, lastId }: LoadedConversation,
): MessageView | undefined {
  const parts: (Message | [from: number, count: number])[] = [];
  let range: [from: number, count: number] | undefined;
  let next = 0;
  for (const message of list) {
    const at = stored[next] === message ? next : stored.indexOf(message, next);
    if (at < 0) {
      range = undefined;
      parts.push(message);
    } else if (range && at === next) {
      range[1]++;
    } else {
      range = [at, 1];
      parts.push(range);
    }
    if (at >= 0) next = at + 1;
  }
  return next > 0 && lastId !== undefined ? { contextId, last: lastId, parts } : undefined;
}

import {
  addedName,
  type Message,
  type MessageStore,
  type StoredMessage,
  type TaskStateStore,
} from '../core/contracts/index.ts';
import type { JournalRecord, Predecessor } from '../core/journal/index.ts';

/**
 * Member of the metadata of the stored message that begins a branch of its context: the number of messages of the context up to its predecessor. A
 * message without it follows the one before it. So the messages of a context are a tree in the order in which they were stored.
 */
export const followsName = 'millrace.follows';

/** The messages from the first of a context to one of them, along their predecessors. */
export interface Path {
  readonly messages: readonly Message[];
  /** Where each is in the context; absent if they are its first ones, in order. */
  readonly places?: readonly number[];
}

/** The messages of a context; `isTree`: whether some of them begin a branch. */
interface Tree {
  readonly messages: readonly Message[];
  readonly isTree: boolean;
}

/** The messages of a path of which some are replaced by a summary. */
export interface Summarized {
  /** How many are replaced, from the first one on. */
  readonly upTo: number;
  /** The place of the last of them in the context. Absent if it is `upTo - 1`. */
  readonly last?: number;
}

export function hasBranches(messages: readonly Message[]): boolean {
  for (const { metadata } of messages) if (metadata?.[followsName] !== undefined) return true;
  return false;
}

/** The path to the message before that place; by default to the last message. */
export function pathTo({ messages, isTree }: Tree, end?: number): Path {
  if (!isTree) return { messages: end === undefined ? messages : messages.slice(0, end) };
  const places: number[] = [];
  for (let place = (end ?? messages.length) - 1; place >= 0; place = endBefore(messages[place], place) - 1)
    places.push(place);
  places.reverse();
  return { messages: places.flatMap((place) => messages[place] ?? []), places };
}

/** The number of messages of a context up to the predecessor of the one at that place. */
function endBefore(message: Message | undefined, place: number): number {
  const end = message?.metadata?.[followsName];
  return typeof end === 'number' && Number.isSafeInteger(end) && end >= 0 && end < place ? end : place;
}

/** The place that {@link Summarized} has for the first messages of a path. */
export function lastOf({ places }: Path, upTo: number): number {
  return places?.[upTo - 1] ?? upTo - 1;
}

/** Whether the summarized messages are the first ones of a path: its predecessors up to a place are the same on every path. */
export function isOnPath(path: Path, { upTo, last = upTo - 1 }: Summarized): boolean {
  return upTo <= path.messages.length && lastOf(path, upTo) === last;
}

/** The messages of a turn, the first of which follows the predecessor; a mark that a caller or a tool has written is removed. */
export function following(added: readonly Message[], end: number | undefined): readonly Message[] {
  if (end === undefined && !hasBranches(added)) return added;
  return added.map((message, index) => {
    const { metadata, ...rest } = message;
    const { [followsName]: _, ...others } = metadata ?? {};
    const kept = index === 0 && end !== undefined ? { ...others, [followsName]: end } : others;
    return Object.keys(kept).length > 0 ? { ...rest, metadata: kept } : rest;
  });
}

type Conversations = Pick<MessageStore, 'list'>;

/** From the message of a context with that id, by default the newest, to its first. Reads pages. Errors: those of the store. */
export async function* newestFirst(
  store: Conversations,
  contextId: string,
  from?: string,
): AsyncGenerator<StoredMessage, void> {
  let isThere = from === undefined;
  for (let after: string | undefined, isLast = false; !isLast; ) {
    const page = await store.list(contextId, { order: 'newest-first', limit: 100, after });
    for (const each of page.messages) {
      isThere ||= each.id === from;
      if (isThere) yield each;
    }
    after = page.next;
    isLast = after === undefined;
  }
}

/**
 * The number of messages of a context up to the predecessor; `undefined` if none of them is what it names. `newest`: the messages, the newest first, of
 * which the first one is at the place `total - 1`.
 */
export async function endOf(
  { after, before }: Predecessor,
  newest: AsyncIterable<StoredMessage> | Iterable<StoredMessage>,
  total: number,
): Promise<number | undefined> {
  if (after === undefined && before === undefined) return 0;
  let place = total;
  let end: number | undefined;
  for await (const { id, taskId, message } of newest) {
    place--;
    if (after !== undefined && (id === after || taskId === after)) return place + 1;
    if (before !== undefined && taskId === before) end = endBefore(message, place);
    else if (end !== undefined) break;
  }
  return end;
}

export interface PathQuery {
  /** How many of the newest messages of the context are read, at most. */
  readonly limit: number;
  /** The path to what this names. Default: to the last message. */
  readonly follows?: Predecessor | undefined;
  /** The id of a message: the path to the last one that follows it. Without effect for a message that is not there. */
  readonly version?: string | undefined;
}

/** A message of a path. */
export interface PathMessage extends StoredMessage {
  /** The messages with the same predecessor, this one among them, in the order in which they were stored. Absent if it is the only one. */
  readonly versions?: { readonly ids: readonly string[]; readonly at: number };
}

/** The newest messages on a path of a context, the oldest first. Errors: those of the store. */
export async function storedPath(
  store: Pick<MessageStore, 'list' | 'load'>,
  contextId: string,
  { limit, follows, version }: PathQuery,
): Promise<readonly PathMessage[]> {
  const read = async () => (await store.list(contextId, { limit, order: 'newest-first' })).messages;
  const count = async () => (await store.load(contextId, { limit: 0 })).total;
  let newest = await read();
  if (!follows && !hasBranches(newest.map(({ message }) => message))) return newest.toReversed();
  let total = await count();
  // Places count from the last message, and a turn may end between the two answers.
  for (let before = -1; before !== total; total = await count()) {
    before = total;
    newest = await read();
  }
  const placed = newest.map((stored, index) => {
    const place = total - 1 - index;
    return { stored, place, end: endBefore(stored.message, place) };
  });
  placed.reverse();
  const end = follows && (await endOf(follows, newest, total));
  return onPathTo(end ?? endAfter(version, placed) ?? total, placed);
}

/** A message, its place in the context, and the number of messages up to its predecessor. */
interface Placed {
  readonly stored: StoredMessage;
  readonly place: number;
  readonly end: number;
}

/** The number of messages up to the last one that follows a message. */
function endAfter(id: string | undefined, placed: readonly Placed[]): number | undefined {
  let last: number | undefined;
  const followers = new Set<number>();
  for (const { stored, place, end } of placed) {
    if (stored.id !== id && !followers.has(end - 1)) continue;
    followers.add(place);
    last = place + 1;
  }
  return last;
}

/** The path to the message before the place `to`. */
function onPathTo(to: number, placed: readonly Placed[]): readonly PathMessage[] {
  const found: PathMessage[] = [];
  const versions = new Map<number, string[]>();
  for (const { stored, end } of placed) {
    const known = versions.get(end);
    if (known) known.push(stored.id);
    else versions.set(end, [stored.id]);
  }
  let next = to - 1;
  for (const { stored, place, end } of placed.toReversed()) {
    if (place !== next) continue;
    next = end - 1;
    const ids = versions.get(end) ?? [];
    found.push(ids.length > 1 ? { ...stored, versions: { ids, at: ids.indexOf(stored.id) } } : stored);
  }
  return found.reverse();
}

/** The messages that a stored turn was given; none if the context has none of it. Errors: those of the store. */
async function inputOf(store: Conversations, contextId: string, taskId: string): Promise<readonly Message[]> {
  const ofTurn: Message[] = [];
  for await (const stored of newestFirst(store, contextId)) {
    if (stored.taskId === taskId) ofTurn.unshift(stored.message);
    else if (ofTurn.length > 0) break;
  }
  const last = ofTurn.findLastIndex(({ role, metadata }) => role === 'user' && metadata?.[addedName] !== true);
  return following(ofTurn.slice(0, last + 1), undefined);
}

interface TurnStores {
  readonly contextId: string;
  readonly messages: Conversations;
  readonly journals: TaskStateStore | undefined;
}

/**
 * What a turn was given, and the turn whose messages begin with that: of a retry the one that failed, which its own messages follow. From the journal where the
 * messages are not stored yet: the turn runs, or its process died between its end and that. `undefined` if the context has neither. Errors: those of the stores.
 */
export async function givenTo(
  taskId: string,
  { contextId, messages, journals }: TurnStores,
): Promise<{ readonly taskId: string; readonly input: readonly Message[] } | undefined> {
  for (let next: string | undefined = taskId; next !== undefined; ) {
    const input = await inputOf(messages, contextId, next);
    if (input.length > 0) return { taskId: next, input };
    const [first]: readonly JournalRecord[] = (await journals?.read(next)) ?? [];
    if (first?.type !== 'turn.started' || first.contextId !== contextId) return undefined;
    if (!first.forkedFrom?.retry) return { taskId: next, input: first.messages };
    next = first.forkedFrom.taskId;
  }
  return undefined;
}

import { concatMap, from, type Observable, of } from 'rxjs';
import {
  AgentLoopError,
  andThen,
  type FollowSignal,
  type MaybePromise,
  type Message,
  type MessageStore,
  type MessageView,
} from '../../core/contracts/index.ts';
import type { Effects, ExtensionRecord, JournalRecord, Stamped } from '../../core/journal/index.ts';

/** What tells the data of a store of conversations from that of others: the parts are compared with `===`. */
type Place = readonly unknown[];

const places = new WeakMap<MessageStore, Place>();

/** For the constructor of a store of conversations. */
export function notePlace(store: MessageStore, place: Place): void {
  places.set(store, place);
}

/** Whether a store has its conversations in that place. */
export function isAt(store: MessageStore, place: Place): boolean {
  return places.get(store)?.every((part, index) => part === place[index]) === true;
}

/** A record whose messages are in the store of conversations. */
type Referring = Stamped<ExtensionRecord> & { readonly effects: Effects & { readonly givenFrom: MessageView } };

function refers(record: JournalRecord): record is Referring {
  return 'effects' in record && record.effects?.givenFrom !== undefined;
}

/** What a store of journals writes: a reference in place of messages that are in its store of conversations. */
export function withReference(record: JournalRecord): JournalRecord {
  if (!refers(record)) return record;
  const { given: _, ...effects } = record.effects;
  return { ...record, effects };
}

/** What a store of journals returns: the messages in place of references. Errors: those of the store of conversations. */
export function withMessages(
  records: readonly JournalRecord[],
  store: () => MessageStore,
): MaybePromise<readonly JournalRecord[]> {
  const at = records.findIndex(refers);
  const record = records[at];
  if (!record || !refers(record)) return records;
  return andThen(withGiven(record, store()), (resolved) => withMessages(records.with(at, resolved), store));
}

/** As `withMessages`, for stores whose conversations are read at once. */
export function withMessagesNow(
  records: readonly JournalRecord[],
  store: () => MessageStore,
): readonly JournalRecord[] {
  const answer = withMessages(records, store);
  if (answer instanceof Promise) throw new TypeError('these conversations are not read at once');
  return answer;
}

/** As `withMessages`, for followers. */
export function followMessages(
  signals$: Observable<FollowSignal>,
  store: () => MessageStore,
): Observable<FollowSignal> {
  return signals$.pipe(
    concatMap((signal) => {
      if (signal.type !== 'record' || !refers(signal.record)) return of(signal);
      const shown = andThen(withGiven(signal.record, store()), (record): FollowSignal => ({ ...signal, record }));
      return shown instanceof Promise ? from(shown) : of(shown);
    }),
  );
}

function withGiven({ effects: { givenFrom: view, ...effects }, ...record }: Referring, store: MessageStore) {
  return andThen(storedIn(view, store), (stored): JournalRecord => {
    const messageAt = (position: number) => (stored ? stored.messages[position - stored.from] : deletedMessage);
    const given = view.parts.flatMap((part): readonly (Message | undefined)[] =>
      isRange(part) ? Array.from({ length: part[1] }, (_, index) => messageAt(part[0] + index)) : [part],
    );
    const known = given.filter((message) => message !== undefined);
    if (known.length === given.length)
      return { ...record, effects: { ...effects, given: known, ...(!stored && { deleted: true }) } };
    throw new AgentLoopError(
      'POISON',
      `The context "${view.contextId}" has fewer messages than record ${record.seq} refers to; restore the store from a backup.`,
      { details: { contextId: view.contextId } },
    );
  });
}

/** Replaces each message of a deleted context: later records of the journal name positions. */
const deletedMessage: Message = Object.freeze({ role: 'user', content: '[deleted with its conversation]' });

interface Stored {
  readonly messages: readonly Message[];
  /** The position of the first. */
  readonly from: number;
}

/** The messages of a context that a view refers to; `undefined` if the context was deleted. */
function storedIn({ contextId, last, parts }: MessageView, store: MessageStore): MaybePromise<Stored | undefined> {
  const ranges = parts.filter(isRange);
  const begin = Math.min(...ranges.map(([first]) => first));
  const end = Math.max(...ranges.map(([first, count]) => first + count));
  const found = (): MaybePromise<Stored | undefined> =>
    andThen(store.load(contextId, { before: end, limit: end - begin }), ({ messages, from }) =>
      andThen(hasMessage(store, contextId, last), (isThere) => (isThere ? { messages, from } : undefined)),
    );
  if (begin > 0) return found();
  // One request, if the view ends with the last message that the context had.
  return andThen(store.list(contextId, { limit: end }), ({ messages: all }) =>
    all.at(-1)?.id === last ? { messages: all.map(({ message }) => message), from: 0 } : found(),
  );
}

function hasMessage(store: MessageStore, contextId: string, id: string): MaybePromise<boolean> {
  const answer = (error: unknown): boolean => {
    if (AgentLoopError.isInstance(error) && error.code === 'INVALID_INPUT') return false;
    throw error;
  };
  try {
    const page = store.list(contextId, { after: id, limit: 1 });
    return page instanceof Promise ? page.then(() => true, answer) : true;
  } catch (error) {
    return answer(error);
  }
}

function isRange(part: Message | readonly [number, number]): part is readonly [number, number] {
  return Array.isArray(part);
}

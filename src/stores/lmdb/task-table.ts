import { createHash } from 'node:crypto';
import type { Key } from 'lmdb';
import type { Command, PostOptions, TaskQuery } from '../../core/contracts/index.ts';
import { isKnownType, type JournalRecord, journalSchema } from '../../core/journal/index.ts';
import {
  assertTaskId,
  childrenIn,
  newerSchema,
  notFound,
  parentIn,
  parsedOrNothing,
  unknownRecord,
} from '../store-rules.ts';
import {
  foundFirst,
  groupOf,
  byStatus as inGroupOrder,
  isDue,
  isRunnable,
  isWithin,
  type StatusQuery,
} from '../task-summary.ts';
import type { LmdbDatabase, LmdbEntry, LmdbRange } from './lmdb-database.ts';
import { damaged, newerLayout } from './open-lmdb.ts';
import { isHeld, statusTimeOf, type TaskHead } from './task-head.ts';

/** The version of the keys and heads below. */
const layout = 1;
const metaKey = ['meta'];
/** Sorts after every number and every hash. */
const last = '~';
/** The number of entries of a group per read. */
const pageSize = 100;

/** How many ended tasks one call deletes at most, each with its child turns: more than one, so that their number shrinks. */
const expiredAtOnce = 4;
/** How many tasks of older versions one call adds to the index of ended tasks. */
const indexedAtOnce = 50;
/** How far that has come. */
const endedFromKey = ['ended-from'];

interface EndedFrom {
  /** The last task that was added, by the number of its creation. */
  readonly born: number;
  /** The newest task when the store was first opened with a time to live: later ones are in the index from their end on. */
  readonly until: number;
}

/** Of keys, in reverse order. */
type Range = readonly [start: Key, end: Key];

interface Meta {
  readonly layout: number;
  /** The numbers of leases granted, and of tasks created, in this file. */
  readonly epoch: number;
  readonly born: number;
}

/**
 * The journals, heads, commands and indexes in an LMDB file, typed. Call every method within a `read` or `write` of the database.
 *
 * Keys: `['head', task]`, `['record', task, seq]`, `['command', task, n]`, `['command-id', task, hash]`, and for `list`
 * `['all', born]`, `['context', hash, born]`, `['child', parent, born]`, `['state', state, born]`, `['group', hash, time of the status, task]`,
 * which hold the task id, for a child turn also the parent's, separated by a blank. A turn that backs off has the state `backoff` there, and is in
 * `['later', until, born]` too; one that has ended in `['ended', time of the end, born]`. Other values are JSON.
 */
export class TaskTable {
  readonly #db: LmdbDatabase;

  constructor(db: LmdbDatabase) {
    this.#db = db;
  }

  /** Errors with `SCHEMA` if a newer version wrote the file. */
  assertLayout(): void {
    const { layout: found } = this.#meta();
    if (found > layout) throw newerLayout(this.#db.path, found);
  }

  /** A number above every epoch that this file has granted, including those of deleted tasks. */
  nextEpoch(): number {
    const meta = this.#meta();
    this.#db.put(metaKey, JSON.stringify({ ...meta, epoch: meta.epoch + 1 }));
    return meta.epoch + 1;
  }

  nextBorn(): number {
    const meta = this.#meta();
    this.#db.put(metaKey, JSON.stringify({ ...meta, born: meta.born + 1 }));
    return meta.born + 1;
  }

  findHead(taskId: string): TaskHead | undefined {
    const text = this.#db.get(['head', taskId]);
    return text === undefined ? undefined : parsed(text, taskId, 'its head is damaged');
  }

  /** Errors: `INVALID_INPUT`, `NOT_FOUND`. */
  head(taskId: string): TaskHead {
    assertTaskId(taskId);
    const head = this.findHead(taskId);
    if (head === undefined) throw notFound(taskId);
    return head;
  }

  /** As `head`; `SCHEMA` for a journal that this version cannot read. */
  readableHead(taskId: string): TaskHead {
    const head = this.head(taskId);
    if (head.schema > journalSchema) throw newerSchema(taskId, head.schema);
    return head;
  }

  putHead(head: TaskHead, before: TaskHead | undefined): void {
    const { taskId, born, contextId, parentTaskId } = head;
    const entry = entryOf(head);
    this.#db.put(['head', taskId], JSON.stringify(head));
    if (before === undefined) {
      this.#db.put(['all', born], entry);
      this.#db.put(['context', hashOf(contextId), born], entry);
      if (parentTaskId !== undefined) this.#db.put(['child', parentTaskId, born], entry);
    }
    this.#putGroup(head, before);
    this.#putLater(head, before);
    if (head.hasEnded && !before?.hasEnded) this.#db.put(['ended', head.updatedAt, born], entryOf(head));
    const [old, now] = [before && listedState(before), listedState(head)];
    if (old === now) return;
    if (old) this.#db.remove(['state', old, born]);
    this.#db.put(['state', now, born], entry);
  }

  /** `text`: the record as JSON. */
  putRecord(taskId: string, seq: number, text: string): void {
    this.#db.put(['record', taskId, seq], text);
  }

  /** At most `limit` records from a seq on, up to the head's. Errors with `POISON` if they are damaged. */
  records(head: TaskHead, from: number, limit = Number.POSITIVE_INFINITY): readonly JournalRecord[] {
    const { taskId, seq } = head;
    const count = Math.min(limit, seq - from + 1);
    if (!(count > 0)) return [];
    const entries = this.#db.range({ start: ['record', taskId, from], end: ['record', taskId, from + count] });
    if (entries.length !== count)
      throw damaged(taskId, `it has ${entries.length} records where its head says ${count}`);
    return entries.map(({ value }, index) => recordOf(value, taskId, from + index));
  }

  /** The commands after the `n`th, with their numbers. */
  commands(taskId: string, n: number, limit?: number): readonly { readonly n: number; readonly command: Command }[] {
    const range = { start: ['command', taskId, n + 1], end: ['command', taskId, last] };
    const entries = this.#db.range(limit === undefined ? range : { ...range, limit });
    return entries.map(({ value }, index) => ({
      n: n + 1 + index,
      command: parsed(value, taskId, `its command ${n + 1 + index} is damaged`),
    }));
  }

  /** Stores a command. Returns the stored command of that id, and the written bytes: 0 if the id exists already, or there are too many. */
  putCommand(
    taskId: string,
    command: Command,
    { most = Number.POSITIVE_INFINITY }: PostOptions = {},
  ): { readonly command: Command | undefined; readonly bytes: number } {
    const idKey = ['command-id', taskId, hashOf(command.id)];
    const before = this.#db.get(idKey);
    if (before !== undefined) {
      const [first] = this.commands(taskId, Number(before) - 1, 1);
      return { command: first?.command, bytes: 0 };
    }
    const [newest] = this.#db.range({
      start: ['command', taskId, last],
      end: ['command', taskId, 0],
      reverse: true,
      limit: 1,
    });
    const n = newest === undefined ? 1 : numberIn(newest.key) + 1;
    if (n > most) return { command: undefined, bytes: 0 };
    const text = JSON.stringify(command);
    this.#db.put(['command', taskId, n], text);
    this.#db.put(idKey, String(n));
    return { command, bytes: Buffer.byteLength(text) };
  }

  /** The task and its descendants, without child turns that do not exist. Empty if there is no such task. Reads damaged journals. */
  family(taskId: string): readonly string[] {
    const family = new Set<string>();
    const add = (member: string, parent: string | undefined): void => {
      if (family.has(member) || this.#db.get(['head', member]) === undefined) return;
      const records = this.#linksIn(member);
      const { parentTaskId = parentIn(records) } = this.#undamagedHead(member) ?? {};
      if (parent !== undefined && parentTaskId !== parent) return;
      family.add(member);
      for (const child of childrenIn(records)) add(child, member);
    };
    add(taskId, undefined);
    return [...family];
  }

  remove(taskId: string): void {
    const head = this.#undamagedHead(taskId);
    for (const kind of ['record', 'command', 'command-id']) {
      this.#db.removeRange([kind, taskId], [kind, taskId, last]);
    }
    this.#db.remove(['head', taskId]);
    if (head) this.#removeFromIndexes(head);
    else this.#searchIndexes(taskId);
  }

  /** Whether `expired` has something to do, for tasks that ended before this time. */
  hasExpired(before: number): boolean {
    const from = this.#endedFrom();
    return (from ? from.born < from.until : this.#meta().born > 0) || this.#endedBefore(before, 1).length > 0;
  }

  /**
   * The tasks to delete that ended before this time, each followed by its child turns; a few of them per call. A child turn goes with its parent
   * turn, and a tree with an open turn stays. Updates the index by time, so that each entry is looked at once.
   */
  expired(before: number, now: number): readonly string[] {
    this.#indexEnded();
    const gone = new Set<string>();
    for (const { key, value } of this.#endedBefore(before, expiredAtOnce)) {
      const [taskId, parent] = inEntry(value);
      this.#db.remove(key);
      if (gone.has(taskId) || (parent !== undefined && this.#db.get(['head', parent]) !== undefined)) continue;
      const family = this.#tree(taskId);
      const isOpen = family.some((member) => this.#undamagedHead(member)?.hasEnded === false);
      if (isOpen) this.#db.put(['ended', now, numberIn(key)], value);
      else for (const member of family) gone.add(member);
    }
    return [...gone];
  }

  /** The family of a task, with child turns that no record of their parent links to: hooks started them, or their parent's process died. */
  #tree(taskId: string): readonly string[] {
    const tree = new Set(this.family(taskId));
    for (const member of tree) {
      const children = this.#db.range({ start: ['child', member], end: ['child', member, last] });
      for (const { value } of children) for (const each of this.family(inEntry(value)[0])) tree.add(each);
    }
    return [...tree];
  }

  #endedBefore(before: number, limit: number): readonly LmdbEntry[] {
    return this.#db.range({ start: ['ended'], end: ['ended', before], limit });
  }

  /** Adds tasks to the index that ended under an older version, which had none. */
  #indexEnded(): void {
    const { born, until } = this.#endedFrom() ?? { born: 0, until: this.#meta().born };
    if (born >= until) return;
    const entries = this.#db.range({ start: ['all', born + 1], end: ['all', until + 1], limit: indexedAtOnce });
    for (const { value } of entries) {
      const head = this.#undamagedHead(inEntry(value)[0]);
      if (head?.hasEnded) this.#db.put(['ended', head.updatedAt, head.born], value);
    }
    const next = entries.at(-1);
    const from: EndedFrom = { born: entries.length < indexedAtOnce || !next ? until : numberIn(next.key), until };
    this.#db.put(endedFromKey, JSON.stringify(from));
  }

  #endedFrom(): EndedFrom | undefined {
    const text = this.#db.get(endedFromKey);
    return text === undefined ? undefined : JSON.parse(text);
  }

  /** The readable records that link to other turns; the first record first. */
  #linksIn(taskId: string): readonly unknown[] {
    const entries = this.#db.range({ start: ['record', taskId], end: ['record', taskId, last] });
    return entries.map(({ value }, index) =>
      index > 0 && !value.includes('"child"') ? undefined : parsedOrNothing(value),
    );
  }

  #undamagedHead(taskId: string): TaskHead | undefined {
    try {
      return this.findHead(taskId);
    } catch {
      return undefined;
    }
  }

  /** For a task whose head does not tell where it is listed. */
  #searchIndexes(taskId: string): void {
    for (const kind of ['all', 'context', 'child', 'state', 'later', 'group', 'ended']) {
      for (const { key, value } of this.#db.range({ start: [kind], end: [kind, last] })) {
        if (inEntry(value)[0] === taskId) this.#db.remove(key);
      }
    }
  }

  #removeFromIndexes(head: TaskHead): void {
    const { born, dueAt, contextId, parentTaskId, updatedAt } = head;
    this.#db.remove(['all', born]);
    this.#db.remove(['context', hashOf(contextId), born]);
    if (parentTaskId !== undefined) this.#db.remove(['child', parentTaskId, born]);
    this.#db.remove(['state', listedState(head), born]);
    if (dueAt !== undefined) this.#db.remove(['later', dueAt, born]);
    if (head.hasEnded) this.#db.remove(['ended', updatedAt, born]);
    const group = groupKey(head);
    if (group) this.#db.remove(group);
  }

  /** The newest first, or the order of a group; runnable tasks by their states, if there is no other condition. */
  list(query: TaskQuery, now: number): readonly TaskHead[] {
    const { state, contextId, parentTaskId, byStatus, runnable = false, limit = 50 } = query;
    const fits = runnable
      ? (head: TaskHead) => isRunnable(head.status) && !isHeld(head, now) && isDue(query, head.dueAt ?? 0)
      : () => true;
    const newest = query.afterTaskId === undefined ? last : this.head(query.afterTaskId).born;
    const isOfAll = contextId === undefined && parentTaskId === undefined && byStatus === undefined;
    if (runnable && isOfAll) {
      const { dueBy = Number.POSITIVE_INFINITY } = query;
      const latest = Number.isFinite(dueBy) ? [dueBy, last] : [dueBy < 0 ? 0 : last];
      const later = ['later', ...latest];
      return this.#found(query, [rangeOf('working'), rangeOf('submitted'), [later, ['later', 0]]], fits);
    }
    if (state === 'working' && isOfAll) {
      const heads = ['working', 'backoff'].flatMap((of) => this.#found(query, [rangeOf(of, newest)], fits));
      return heads.sort((a, b) => b.born - a.born).slice(0, limit);
    }
    if (byStatus !== undefined) {
      const { group, after, since } = byStatus;
      const index = ['group', hashOf(group)];
      const start = after ? [...index, Date.parse(after.statusAt), after.taskId] : [...index, last];
      const end = [...index, since === undefined ? 0 : Date.parse(since)];
      if (state === undefined || runnable) return this.#found(query, [[start, end]], fits);
      return this.#ofGroupAndState(query, byStatus, this.#heads(query, [[start, end]], fits));
    }
    const ofState = state === undefined ? ['all'] : ['state', state];
    const ofContext = contextId === undefined ? ofState : ['context', hashOf(contextId)];
    const index = parentTaskId === undefined ? ofContext : ['child', parentTaskId];
    return this.#found(
      query,
      [
        [
          [...index, newest],
          [...index, 0],
        ],
      ],
      fits,
    );
  }

  #putGroup(head: TaskHead, before: TaskHead | undefined): void {
    const [old, now] = [before && groupKey(before), groupKey(head)];
    if (now === undefined || (before && statusTimeOf(before) === statusTimeOf(head))) return;
    if (old) this.#db.remove(old);
    this.#db.put(now, entryOf(head));
  }

  #putLater({ born, dueAt, ...head }: TaskHead, before: TaskHead | undefined): void {
    if (before?.dueAt === dueAt) return;
    if (before?.dueAt !== undefined) this.#db.remove(['later', before.dueAt, born]);
    if (dueAt !== undefined) this.#db.put(['later', dueAt, born], entryOf(head));
  }

  /** Searches ranges in sequence, each in reverse order. */
  #found(query: TaskQuery, ranges: readonly Range[], fits: (head: TaskHead) => boolean): readonly TaskHead[] {
    const { limit = 50 } = query;
    const found: TaskHead[] = [];
    if (!(limit > 0)) return found;
    for (const head of this.#heads(query, ranges, fits)) {
      if (head) found.push(head);
      if (found.length >= limit) break;
    }
    return found;
  }

  /** Yields the task of each index entry if it matches the query. The entry contains the parent turn, so that is checked before the head is read. */
  *#heads(
    { state, contextId, parentTaskId, agentId, roots = false, limit = 50 }: TaskQuery,
    ranges: readonly Range[],
    fits: (head: TaskHead) => boolean,
  ): Generator<TaskHead | undefined, undefined> {
    const isAsked = (head: TaskHead) =>
      (state ?? head.status) === head.status &&
      (agentId ?? head.agentId) === head.agentId &&
      (contextId ?? head.contextId) === head.contextId &&
      fits(head);
    for (const [start, end] of ranges) {
      for (const { value } of this.#entriesAfter({ start, end, limit: Math.min(limit, pageSize) })) {
        const [taskId, parent] = inEntry(value);
        const isOther = (roots && parent !== undefined) || (parentTaskId !== undefined && parent !== parentTaskId);
        const head = isOther ? undefined : this.findHead(taskId);
        yield head && isAsked(head) ? head : undefined;
      }
    }
  }

  /** Tasks of one state in the order of their group, by the index of the group or that of the state. */
  #ofGroupAndState(query: TaskQuery, byStatus: StatusQuery, ofGroup: Iterator<TaskHead | undefined>) {
    const { state = '', limit = 50 } = query;
    const placeOf = (head: TaskHead) => ({ statusAt: statusTimeOf(head), taskId: head.taskId });
    const isOfGroup = (head: TaskHead) =>
      groupOf(head.contextId) === byStatus.group && isWithin(byStatus, placeOf(head));
    const states = state === 'working' ? ['working', 'backoff'] : [state];
    return foundFirst(
      ofGroup,
      this.#heads(
        query,
        states.map((each) => rangeOf(each)),
        isOfGroup,
      ),
      {
        limit,
        order: (one, other) => inGroupOrder(placeOf(one), placeOf(other)),
      },
    );
  }

  /** The entries after a key, in reverse order, read page by page. */
  *#entriesAfter({ start, end, limit }: Required<Omit<LmdbRange, 'reverse'>>): Generator<LmdbEntry> {
    // The first page has the requested size; if that is not enough, later pages are full ones.
    for (let from = start, size = limit + 1; ; size = pageSize + 1) {
      const at = JSON.stringify(from);
      const page = this.#db.range({ start: from, end, reverse: true, limit: size });
      const entries = page.filter(({ key }) => JSON.stringify(key) !== at);
      yield* entries;
      const next = entries.at(-1);
      if (next === undefined || page.length < size) return;
      from = next.key;
    }
  }

  #meta(): Meta {
    const text = this.#db.get(metaKey);
    return text === undefined ? { layout, epoch: 0, born: 0 } : JSON.parse(text);
  }
}

/** Hashes a string of any length and characters to a part of a key. */
function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}

/** The state under which an index lists a task: turns that back off are separate from runnable ones. */
function listedState({ status, dueAt }: TaskHead): string {
  return status === 'working' && dueAt !== undefined ? 'backoff' : status;
}

/** The range of a state's index after a position. */
function rangeOf(state: string, after: string | number = last): Range {
  const index = ['state', state];
  return [
    [...index, after],
    [...index, 0],
  ];
}

/** The key of a task in the order of its group; `undefined` if its context is in none. */
function groupKey(head: TaskHead): Key | undefined {
  const group = groupOf(head.contextId);
  return group === undefined ? undefined : ['group', hashOf(group), statusTimeOf(head), head.taskId];
}

/** The index entry of a task. Task ids contain no space. */
function entryOf({ taskId, parentTaskId }: Pick<TaskHead, 'taskId' | 'parentTaskId'>): string {
  return parentTaskId === undefined ? taskId : `${taskId} ${parentTaskId}`;
}

/** The task of an index entry, and the parent turn of a child turn. */
function inEntry(entry: string): readonly [taskId: string, parentTaskId?: string] {
  const blank = entry.indexOf(' ');
  return blank < 0 ? [entry] : [entry.slice(0, blank), entry.slice(blank + 1)];
}

function numberIn(key: Key): number {
  const number = Array.isArray(key) ? key.at(-1) : undefined;
  return typeof number === 'number' ? number : 0;
}

function parsed<T>(text: string, taskId: string, what: string): T {
  try {
    return JSON.parse(text);
  } catch {
    throw damaged(taskId, what);
  }
}

function recordOf(text: string, taskId: string, seq: number): JournalRecord {
  const record: JournalRecord = parsed(text, taskId, `record ${seq} is damaged`);
  if (record.seq !== seq) throw damaged(taskId, `record ${record.seq} stands at ${seq}`);
  if (!isKnownType(record.type)) throw unknownRecord(taskId, seq, record.type);
  if (record.type === 'turn.started' && record.taskId !== taskId) {
    throw damaged(taskId, `it is the journal of task "${record.taskId}"`);
  }
  return record;
}

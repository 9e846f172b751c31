import {
  AgentLoopError,
  type AppendOptions,
  jsonText,
  type Lease,
  messageOf,
  type ReadOptions,
  taskIdPattern,
  type Under,
} from '../core/contracts/index.ts';
import {
  foldRecords,
  isKnownType,
  isTerminal,
  type JournalRecord,
  journalSchema,
  kindOf,
  type PersistedLoopState,
  toPersisted,
} from '../core/journal/index.ts';

/** The end of a journal. */
export interface JournalEnd {
  readonly seq: number;
  /** Whether its last record is a terminal one. */
  readonly hasEnded: boolean;
}

/**
 * Whether to write an owner's records: true if they continue at the journal's end, false if this owner wrote
 * all of them before. Errors: `TERMINAL`, `REWOUND`, `POISON`. The lease is checked before.
 */
export function checkAppend(end: JournalEnd, lease: Lease, records: readonly JournalRecord[]): boolean {
  const first = records[0]?.seq ?? Number.POSITIVE_INFINITY;
  if (first <= end.seq && first > lease.seq && first + records.length - 1 <= end.seq) return false;
  if (end.hasEnded) throw ended(lease.taskId);
  let { seq } = end;
  let previous: JournalRecord | undefined;
  for (const record of records) {
    if (record.seq !== seq + 1) throw rewound(lease.taskId, seq, record.seq);
    if (previous !== undefined && isTerminal(previous)) throw ended(lease.taskId);
    if (kindOf(record.type) === undefined) throw unknownRecord(lease.taskId, record.seq, record.type);
    previous = record;
    seq++;
  }
  return true;
}

/** Why a batch is invalid for any journal; for stores whose server compares it with the journal. */
export function batchFault(taskId: string, records: readonly JournalRecord[]): AgentLoopError | undefined {
  let previous: JournalRecord | undefined;
  for (const record of records) {
    if (previous !== undefined && record.seq !== previous.seq + 1) return rewound(taskId, previous.seq, record.seq);
    if (previous !== undefined && isTerminal(previous)) return ended(taskId);
    if (!isKnownType(record.type)) return unknownRecord(taskId, record.seq, String(record.type));
    previous = record;
  }
  return undefined;
}

/** The seq of the open model call's `llm.start` after these records; 0 for none, `undefined` if they do not change it. */
export function openCallAfter(records: readonly JournalRecord[]): number | undefined {
  let open: number | undefined;
  for (const { type, seq } of records) {
    const streams = kindOf(type)?.streams;
    if (streams === 'begins') open = seq;
    else if (streams === 'ends') open = 0;
  }
  return open;
}

/** The maximum per group: a Redis script blocks its server. */
const maxRecords = 100;

/** Appends of one lease, called in one tick of this process, that are sent together. */
export class AppendGroup {
  readonly lease: Lease;
  readonly records: JournalRecord[];
  options: AppendOptions;
  /** Settles as the append does. */
  readonly answered: Promise<void>;
  #answer: (answer: Promise<void>) => void = () => {};

  constructor(lease: Lease, records: readonly JournalRecord[], options: AppendOptions) {
    this.lease = lease;
    this.records = [...records];
    this.options = options;
    this.answered = new Promise((resolve) => {
      this.#answer = resolve;
    });
  }

  /** Adds an append if it continues the group's records. */
  take(lease: Lease, records: readonly JournalRecord[], { status, barrier }: AppendOptions): boolean {
    const last = this.records.at(-1);
    const first = records[0];
    if (last === undefined || first?.seq !== last.seq + 1 || isTerminal(last)) return false;
    if (lease.owner !== this.lease.owner || lease.epoch !== this.lease.epoch) return false;
    if (this.records.length + records.length > maxRecords) return false;
    this.records.push(...records);
    this.options = { status, barrier: barrier || this.options.barrier };
    return true;
  }

  answerWith(answer: Promise<void>): void {
    this.#answer(answer);
  }
}

/**
 * Whether a newer owner of the parent turn acquires a child turn at once, even if another owner holds it; if not, the lease of the child
 * decides. `before`: the `under` in the head. Errors: `FENCED` for an older owner of the parent turn.
 */
export function takesAtOnce(taskId: string, before: Under | undefined, under: Under | undefined): boolean {
  if (!before || !under || before.taskId !== under.taskId) return false;
  if (under.epoch < before.epoch) throw olderParent(taskId, under, before.epoch);
  return under.epoch > before.epoch;
}

/** The task ids of the child turns that records link to, each once. Skips invalid records: a damaged journal can be deleted. */
export function childrenIn(records: Iterable<unknown>): readonly string[] {
  const children = new Set<string>();
  for (const record of records) {
    if (typeof record !== 'object' || record === null || !('child' in record)) continue;
    const taskId = idIn(record.child);
    if (taskId !== undefined) children.add(taskId);
  }
  return [...children];
}

/** The task id of the parent turn, from a journal that may be damaged. */
export function parentIn(records: readonly unknown[]): string | undefined {
  return idIn(memberOf(records[0], 'parent'));
}

function idIn(link: unknown): string | undefined {
  const taskId = memberOf(link, 'taskId');
  return typeof taskId === 'string' && taskIdPattern.test(taskId) ? taskId : undefined;
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}

/** Refuses an invalid task id: `INVALID_INPUT`. */
export function assertTaskId(taskId: string): void {
  if (taskIdPattern.test(taskId)) return;
  throw new AgentLoopError(
    'INVALID_INPUT',
    `The task id ${JSON.stringify(taskId)} is invalid; use 1 to 128 of the characters A-Z a-z 0-9 _ . : -`,
  );
}

/** The error of a store that has no such task: `NOT_FOUND`. */
export function notFound(taskId: string): AgentLoopError {
  return new AgentLoopError(
    'NOT_FOUND',
    `The store has no task "${taskId}"; check the id, or start the turn again if the task was deleted or has expired.`,
    { taskId },
  );
}

/** The error of a write under a lost lease: `FENCED`. */
export function fenced(lease: Lease): AgentLoopError {
  return new AgentLoopError(
    'FENCED',
    `The lease of "${lease.owner}" on task "${lease.taskId}" (epoch ${lease.epoch}) was taken over or released; stop this turn, its results are not recorded.`,
    { taskId: lease.taskId },
  );
}

/** For an `acquire`, which has no lease yet. `epoch`: of the parent's lease under which the child turn was acquired. */
export function olderParent(taskId: string, under: Under, epoch: number): AgentLoopError {
  return new AgentLoopError(
    'FENCED',
    `A newer owner of the parent turn "${under.taskId}" (epoch ${epoch}, yours is ${under.epoch}) took the child turn "${taskId}"; stop the parent turn, its results are not recorded.`,
    { taskId },
  );
}

export function rewound(taskId: string, head: number, seq: number): AgentLoopError {
  return new AgentLoopError(
    'REWOUND',
    `Record ${seq} does not follow the journal of task "${taskId}", which ends at ${head}; stop this turn and resume the task from its journal.`,
    { taskId },
  );
}

/** `remainingMs`: how long the lease lasts without a renewal. */
export function busy(taskId: string, remainingMs: number): AgentLoopError {
  return new AgentLoopError(
    'BUSY',
    `Task "${taskId}" is held by another owner for ${remainingMs} ms more; follow it, or try again later.`,
    { taskId, retryable: true, retryAfterMs: remainingMs },
  );
}

/** The error of a write to a turn that has ended: `TERMINAL`. */
export function ended(taskId: string): AgentLoopError {
  return new AgentLoopError('TERMINAL', `The turn of task "${taskId}" has ended; start a new one with another id.`, {
    taskId,
  });
}

/** The error of a journal of a newer version: `SCHEMA`. */
export function newerSchema(taskId: string, schema: number): AgentLoopError {
  return new AgentLoopError(
    'SCHEMA',
    `The journal of task "${taskId}" has schema ${schema}, this version reads up to ${journalSchema}; update millrace.`,
    { taskId },
  );
}

export function unknownRecord(taskId: string, seq: number, type: string): AgentLoopError {
  return new AgentLoopError(
    'POISON',
    `Record ${seq} of task "${taskId}" has the type "${type}", which this version does not know; name extension records "x.…", or update millrace.`,
    { taskId },
  );
}

/** The first requested seq: a value below 1 means the journal's start. */
export function firstSeq({ from = 1 }: ReadOptions): number {
  return Math.max(1, from);
}

/** Implements `load` from the records of `read`: null if there is no such task. */
export async function loadedState(records: Promise<readonly JournalRecord[]>): Promise<PersistedLoopState | null> {
  try {
    return toPersisted(foldRecords(await records));
  } catch (error) {
    if (AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND') return null;
    throw error;
  }
}

/** Errors: `INVALID_INPUT`. */
export function recordJson(record: JournalRecord, taskId: string): string {
  try {
    return jsonText(record, { levels: Number.POSITIVE_INFINITY }) ?? '';
  } catch (error) {
    throw new AgentLoopError(
      'INVALID_INPUT',
      `Record ${record.seq} (${record.type}) of task "${taskId}" cannot be written as JSON: ${messageOf(error)}.`,
      { taskId, cause: error },
    );
  }
}

/** Parses a JSON string; `undefined` for a damaged one. */
export function parsedOrNothing(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

import { filter, firstValueFrom, map, merge, Observable } from 'rxjs';
import {
  AgentLoopError,
  type ChildLink,
  type Clock,
  isTerminalState,
  type Lease,
  type Message,
  systemClock,
  type TaskStateStore,
  type Under,
} from '../core/contracts/index.ts';
import {
  type Answers,
  applyRecord,
  commitOf,
  foldRecords,
  type LoopState,
  ready,
  recordsOfAnswers,
  type TerminalRecord,
  type TurnRecord,
  taskState,
} from '../core/journal/index.ts';
import { releaseUnused } from '../core/ownership/index.ts';
import { after, onAbort, within } from '../core/streams/index.ts';
import { childOf } from '../core/turn/index.ts';
import { restoreEnded } from '../observability/restore-runs.ts';
import { listedChildren } from './child-turn.ts';
import { lostEndOf } from './lost-end.ts';

/** Options of `AgentLoop.answer`. */
export interface AnswerOptions {
  /** Where the turn is. */
  readonly store: TaskStateStore;
  /** By question id, e.g. `{ '1:0': { approved: true } }`. */
  readonly answers: Answers;
  /** How long the owner of the turn may take to record them. Milliseconds; default 30,000. */
  readonly deadlineMs?: number | undefined;
  /** Replaced in tests. Default: the system clock. */
  readonly clock?: Clock | undefined;
  /** Returns the id of the command that delivers an answer, by question id: a repeated id is applied once. Default: random ids. */
  readonly commandId?: ((questionId: string) => string) | undefined;
  /** The message that contained the answers: the journal stores it with the first of them. Default: none. */
  readonly message?: Message | undefined;
}

/**
 * Answers questions of a task from any process: sends the answers to its owner; if it has none, writes them here. Resolves once they
 * are recorded. Errors: `INVALID_INPUT`, `CONFLICT` as for `recordsOfAnswers`; `NOT_FOUND`, `TERMINAL`, `UNAVAILABLE`; `BUSY` if the
 * owner, or the store, does not record them in time.
 */
export async function answerTask(taskId: string, options: AnswerOptions & { readonly root?: boolean }): Promise<void> {
  const { store, answers, deadlineMs = 30_000, clock = systemClock, commandId = newId, message } = options;
  const deadline = { ms: deadlineMs, clock, option: 'deadlineMs' };
  const state = foldRecords(await ready(() => store.read(taskId), deadline));
  const { parent } = state.turn;
  if (parent && options.root) throw childOf(taskId, parent);
  const sources = new Map<string, { readonly command: string; readonly message?: Message }>();
  for (const { questionId, answer } of unrecorded(state, answers)) {
    const id = commandId(questionId);
    const kept = sources.size === 0 && message ? { message } : {};
    sources.set(questionId, { command: id, ...kept });
    const post = () => store.post(taskId, { id, type: 'answer', questionId, answer, ...kept });
    if (!(await isPosted(() => ready(post, deadline)))) break;
  }
  const missing = (now: LoopState) => {
    const records = unrecorded(now, answers);
    return records.length === 0 ? 'done' : records.map((each) => ({ ...each, ...sources.get(each.questionId) }));
  };
  if (await ensureRecords({ store, taskId, clock, deadlineMs, missing })) return;
  const late = `The answers for task "${taskId}" were not recorded within ${deadlineMs} ms; its owner, if it lives, still gets them.`;
  throw new AgentLoopError('BUSY', late, { taskId, retryable: true });
}

/** False if the turn has ended meanwhile: what it recorded decides then. */
async function isPosted(post: () => Promise<unknown>): Promise<boolean> {
  try {
    await post();
    return true;
  } catch (error) {
    if (AgentLoopError.isInstance(error) && error.code === 'TERMINAL') return false;
    throw error;
  }
}

function newId(): string {
  return crypto.randomUUID();
}

/** The answers that are not recorded yet. Errors: `TERMINAL` if the turn has ended. */
function unrecorded(state: LoopState, answers: Answers) {
  const { taskId } = state.turn;
  if (!state.isComplete) return recordsOfAnswers(state, answers);
  const known = new Set(state.answers.map(({ question }) => question.id));
  if (Object.keys(answers).every((id) => known.has(id))) return recordsOfAnswers(state, answers);
  throw new AgentLoopError('TERMINAL', `Task "${taskId}" is over; nothing can be answered any more.`, { taskId });
}

/** Options of `AgentLoop.cancel`. */
export interface CancelOptions {
  /** Where the turn is. */
  readonly store: TaskStateStore;
  /** Default `canceled`. */
  readonly reason?: string | undefined;
  /** How long the owner of the turn may take to stop. Milliseconds; default 10,000. */
  readonly deadlineMs?: number | undefined;
  /** Replaced in tests. Default: the system clock. */
  readonly clock?: Clock | undefined;
}

interface CancelTreeOptions extends CancelOptions {
  /** The lease of the parent turn, if a child turn is cancelled. */
  readonly under?: Under | undefined;
  /** When the process of the parent turn was last seen alive, if it was lost. Milliseconds since 1970. */
  readonly parentLostAt?: number | undefined;
}

/**
 * Cancels a task from any process: its owner stops it; if it has none, its end is written here, after the ends of its open child
 * turns, the deepest first, with the spans that its process lost. If that fails halfway, repeating the cancel completes it. Resolves once the turn is
 * over, or after the deadline: the command then waits for the current or next owner. Does nothing for a task that has ended. Errors: `NOT_FOUND`,
 * `UNAVAILABLE`.
 */
export async function cancelTask(taskId: string, options: CancelOptions): Promise<void> {
  await cancelTree(taskId, options);
}

/** As `cancelTask`; resolves with false if the turn was not over by the deadline. */
async function cancelTree(taskId: string, options: CancelTreeOptions): Promise<boolean> {
  const { store, reason = 'canceled', deadlineMs = 10_000, clock = systemClock } = options;
  const deadline = { ms: deadlineMs, clock, option: 'deadlineMs' };
  const lost = await ready(async () => lostEndOf(taskId, store), deadline);
  if (lost) return endTree(taskId, lost, options);
  try {
    await ready(() => store.post(taskId, { id: crypto.randomUUID(), type: 'cancel', reason }), deadline);
  } catch (error) {
    if (!AgentLoopError.isInstance(error) || error.code !== 'TERMINAL') throw error;
    // A stopped owner may have created a child turn after the end was written.
    const state = foldRecords(await store.read(taskId));
    const children = [...state.openChildren, ...(await childrenOfHooks(store, state))];
    await cancelChildren(children, { ...options, under: undefined });
    return true;
  }
  return endTree(taskId, { type: 'turn.canceled', reason }, options);
}

/**
 * Writes the end of a child turn that its parent turn has recorded, and that the store has lost: see `lostEndOf`. Returns false if nothing is lost,
 * or the turn was not over by the deadline. Errors: those of the store.
 */
export async function endLostChild(taskId: string, options: CancelOptions): Promise<boolean> {
  const lost = await lostEndOf(taskId, options.store);
  return lost !== undefined && endTree(taskId, lost, options);
}

/** Ensures that a turn has ended, below it first; `end` is written if it has no owner. */
async function endTree(taskId: string, end: TerminalRecord, options: CancelTreeOptions): Promise<boolean> {
  const { store, deadlineMs = 10_000, clock = systemClock, under, parentLostAt } = options;
  const missing = (state: LoopState) => (state.isComplete ? ('done' as const) : [end]);
  return ensureRecords({
    store,
    taskId,
    clock,
    deadlineMs,
    under,
    missing,
    before: async (state, lease) => {
      const children = [...state.openChildren, ...(await childrenOfHooks(store, state))];
      const under = { taskId, epoch: lease.epoch };
      const lostAt = Math.min(lease.abandonedAt ?? Number.POSITIVE_INFINITY, parentLostAt ?? Number.POSITIVE_INFINITY);
      await cancelChildren(children, { ...options, under, parentLostAt: lostAt, beforeEach: () => store.renew(lease) });
      await restoreEnded(store, { lease, clock, parentLostAt });
    },
  });
}

/** Child turns that hooks started and whose process crashed. */
async function childrenOfHooks(store: TaskStateStore, { turn }: LoopState): Promise<readonly ChildLink[]> {
  return (await listedChildren(store, turn.taskId)).filter(({ state }) => !isTerminalState(state));
}

interface CancelChildrenOptions extends CancelTreeOptions {
  /** Renews the lease of the parent turn. */
  readonly beforeEach?: () => void | Promise<void>;
}

/**
 * Cancels child turns under the lease of their parent turn, also those that another owner runs. A child turn that was never created is skipped.
 * Errors: those of the store, and `UNAVAILABLE` if one is not over by the deadline.
 */
export async function cancelChildren(
  children: readonly ChildLink[],
  { beforeEach, ...options }: CancelChildrenOptions,
): Promise<void> {
  for (const { taskId } of children) {
    await beforeEach?.();
    try {
      if (await cancelTree(taskId, options)) continue;
    } catch (error) {
      if (AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND') continue;
      throw error;
    }
    const message = `The child turn "${taskId}" could not be cancelled in time; cancel its parent turn again.`;
    throw new AgentLoopError('UNAVAILABLE', message, { taskId, retryable: true });
  }
}

/** Records that a process other than the owner wants in the journal. */
interface EnsureOptions {
  readonly store: TaskStateStore;
  readonly taskId: string;
  readonly clock: Clock;
  /** How long the owner of the turn may take, in milliseconds. */
  readonly deadlineMs: number;
  /** Returns the records still missing in this state; `'done'` if none are. Throws if they can no longer be written. */
  readonly missing: (state: LoopState) => readonly TurnRecord[] | 'done';
  /** The lease of the parent turn, for a child turn. */
  readonly under?: Under | undefined;
  /** Runs under the lease before the records are written. */
  readonly before?: (state: LoopState, lease: Lease) => Promise<void>;
}

const leaseMs = 5_000;
const recheckMs = 250;

/**
 * Ensures that records are in a journal: waits until the owner of the turn, which received a command, writes them; if the turn has no owner,
 * writes them here. Resolves with false after the deadline. Errors: those of `missing`,
 * `NOT_FOUND`, `UNAVAILABLE`. Reads each record once.
 */
async function ensureRecords(wanted: EnsureOptions): Promise<boolean> {
  const { clock, deadlineMs } = wanted;
  const over = new AbortController();
  try {
    return await within({ ms: deadlineMs, clock, late: () => false }, untilDone(wanted, over.signal));
  } finally {
    over.abort();
  }
}

async function untilDone(wanted: EnsureOptions, over: AbortSignal): Promise<boolean> {
  const { store, taskId, missing, under } = wanted;
  let state = foldRecords(await store.read(taskId));
  while (!over.aborted) {
    if (missing(state) === 'done') return true;
    const lease = await leaseOf(store, taskId, under);
    if (lease && (await writeMissing(wanted, lease, state))) return true;
    state = await caughtUp(store, state);
    if (missing(state) !== 'done') await nextRecord(wanted, state, over);
    state = await caughtUp(store, state);
  }
  return false;
}

/** The lease; `undefined` if another owner holds it, or the turn is over. */
async function leaseOf(store: TaskStateStore, taskId: string, under: Under | undefined): Promise<Lease | undefined> {
  try {
    return await store.acquire(taskId, `outside-${crypto.randomUUID()}`, leaseMs, under);
  } catch (error) {
    if (AgentLoopError.isInstance(error) && (error.code === 'BUSY' || error.code === 'TERMINAL')) return undefined;
    throw error;
  }
}

async function caughtUp(store: TaskStateStore, state: LoopState): Promise<LoopState> {
  const records = await store.read(state.turn.taskId, { from: state.seq + 1 });
  return records.reduce<LoopState>(applyRecord, state);
}

/** Returns false if another process acquired the turn meanwhile: that owner receives the command. */
async function writeMissing(
  { store, clock, missing, before }: EnsureOptions,
  lease: Lease,
  known: LoopState,
): Promise<boolean> {
  try {
    const state = await caughtUp(store, known);
    const records = missing(state);
    if (records === 'done' || records.length === 0) return true;
    await before?.(state, lease);
    const commit = commitOf({ epoch: lease.epoch, now: () => clock.now() }, state, records);
    const stamped = commit.steps.map((step) => step.record);
    await store.append(lease, stamped, { status: taskState(commit.after), barrier: true });
    return true;
  } catch (error) {
    if (AgentLoopError.isInstance(error) && error.code === 'FENCED') return false;
    throw error;
  } finally {
    await releaseUnused(store, lease);
  }
}

/** Resolves when the owner of the turn has appended a record, or after `recheckMs`: it may have released the turn without one. */
async function nextRecord(
  { store, taskId, clock }: EnsureOptions,
  { seq }: LoopState,
  over: AbortSignal,
): Promise<void> {
  const records$ = store.follow(taskId, { from: seq + 1 }).pipe(
    filter(({ type }) => type === 'record'),
    map(() => undefined),
  );
  const pause$ = new Observable<undefined>((to) => after(recheckMs, clock, () => to.next(undefined)));
  const left$ = new Observable<undefined>((to) => onAbort(over, () => to.next(undefined)));
  await firstValueFrom(merge(records$, pause$, left$), { defaultValue: undefined });
}

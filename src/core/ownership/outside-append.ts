import { filter, firstValueFrom, map, merge, Observable } from 'rxjs';
import type { Clock } from '../contracts/clock.ts';
import { AgentLoopError } from '../contracts/errors.ts';
import type { Lease, TaskStateStore, Under } from '../contracts/store.ts';
import { applyRecord, foldRecords } from '../journal/apply-record.ts';
import type { TurnRecord } from '../journal/records.ts';
import { commitOf } from '../journal/signals.ts';
import { type LoopState, taskState } from '../journal/state.ts';
import { giveBack } from './lease.ts';

/** What somebody who does not run a turn wants to be in its journal. */
interface OutsideAppend {
  readonly store: TaskStateStore;
  readonly taskId: string;
  readonly clock: Clock;
  /** What the turn's owner may take, in milliseconds. */
  readonly deadlineMs: number;
  /** What is still to be written in this state; `'done'` where it is there, or needs no more. Throws where it cannot be any more. */
  readonly missing: (state: LoopState) => readonly TurnRecord[] | 'done';
  /** The lease of the parent turn, where it is a child turn. */
  readonly under?: Under | undefined;
  /** What has to be done with the lease before the records are written. */
  readonly before?: (state: LoopState, lease: Lease) => Promise<void>;
}

const leaseMs = 5_000;
const lookAgainMs = 250;

/**
 * Ensures that records get into a journal: waits for the turn's owner to write them, which received a command, and writes them
 * here where nobody holds the turn. Resolves with false where that takes longer than the deadline. Errors: those of `missing`,
 * `NOT_FOUND`, `UNAVAILABLE`. Reads each record once.
 */
export async function appendFromOutside(wanted: OutsideAppend): Promise<boolean> {
  const { clock, deadlineMs } = wanted;
  let stop = () => {};
  const late = new Promise<false>((resolve) => {
    stop = clock.schedule(deadlineMs, () => resolve(false));
  });
  const over = new AbortController();
  try {
    return await Promise.race([late, untilDone(wanted, over.signal)]);
  } finally {
    over.abort();
    stop();
  }
}

async function untilDone(wanted: OutsideAppend, over: AbortSignal): Promise<boolean> {
  const { store, taskId, missing, under } = wanted;
  let state = foldRecords(await store.read(taskId));
  while (!over.aborted) {
    if (missing(state) === 'done') return true;
    const lease = await leaseOf(store, taskId, under);
    if (lease && (await writeMissing(wanted, lease, state))) return true;
    state = await caughtUp(store, state);
    if (missing(state) !== 'done') await change(wanted, state, over);
    state = await caughtUp(store, state);
  }
  return false;
}

/** The lease, where nobody holds the turn and it is not over. */
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

/** False if another process took the turn meanwhile: that owner receives the command. */
async function writeMissing(
  { store, clock, missing, before }: OutsideAppend,
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
    await giveBack(store, lease);
  }
}

/** Resolves when the turn's owner has written something, or after a while: it may have given the turn up without a word. */
async function change({ store, taskId, clock }: OutsideAppend, { seq }: LoopState, over: AbortSignal): Promise<void> {
  const records$ = store.follow(taskId, { from: seq + 1 }).pipe(
    filter(({ type }) => type === 'record'),
    map(() => undefined),
  );
  const pause$ = new Observable<undefined>((to) => clock.schedule(lookAgainMs, () => to.next(undefined)));
  const left$ = new Observable<undefined>((to) => {
    const leave = () => to.next(undefined);
    over.addEventListener('abort', leave);
    return () => over.removeEventListener('abort', leave);
  });
  await firstValueFrom(merge(records$, pause$, left$), { defaultValue: undefined });
}

import { filter, firstValueFrom, map, merge, Observable } from 'rxjs';
import type { TaskStateStore } from '../stores/interfaces.ts';
import { foldRecords } from './apply-record.ts';
import { type Answers, recordsOfAnswers } from './check-answers.ts';
import { type Clock, systemClock } from './clock.ts';
import { AgentLoopError } from './errors.ts';
import { isTerminal, type TurnAnswered } from './records.ts';
import { commitOf } from './signals.ts';
import { taskState } from './state.ts';

export interface AnswerOptions {
  readonly store: TaskStateStore;
  /** By call id, e.g. `{ '1:0': { approved: true } }`. */
  readonly answers: Answers;
  /** How long an owner of the turn may take to record them. Milliseconds; default 30,000. */
  readonly deadlineMs?: number;
  readonly clock?: Clock;
}

interface Reply {
  readonly store: TaskStateStore;
  readonly taskId: string;
  readonly records: readonly TurnAnswered[];
  readonly clock: Clock;
}

const leaseMs = 5_000;
const lookAgainMs = 250;

/**
 * Answers questions of a task from any process: its owner is told; where it has none, the answers are written here, and the task is
 * `working` and can be resumed. Resolves once they are recorded. Errors: `INVALID_INPUT`, `CONFLICT` as for `recordsOfAnswers`;
 * `NOT_FOUND`, `TERMINAL`, `UNAVAILABLE`; `BUSY` where the owner did not record them in time.
 */
export async function answerTask(taskId: string, options: AnswerOptions): Promise<void> {
  const { store, answers, deadlineMs = 30_000, clock = systemClock } = options;
  const state = foldRecords(await store.read(taskId));
  if (state.isComplete) throw over(taskId);
  const records = recordsOfAnswers(state, answers).map((record) => ({ ...record, command: crypto.randomUUID() }));
  if (records.length === 0) return;
  for (const { callId, answer, command: id } of records)
    await store.post(taskId, { id, type: 'answer', callId, answer });
  const reply = { store, taskId, records, clock };
  const until = clock.now() + deadlineMs;
  while (!(await written(reply))) {
    if (clock.now() >= until) throw late(taskId, deadlineMs);
    await change(reply);
  }
}

/** Whether the answers are in the journal by now; written here where nobody holds the turn. */
async function written({ store, taskId, records, clock }: Reply): Promise<boolean> {
  try {
    const lease = await store.acquire(taskId, `answer-${crypto.randomUUID()}`, leaseMs);
    try {
      const state = foldRecords(await store.read(taskId));
      const open = records.filter(({ command }) => !state.commands.includes(command ?? ''));
      if (open.length === 0) return true;
      const left = open.flatMap((record) =>
        recordsOfAnswers(state, { [record.callId]: record.answer }).map(() => record),
      );
      const commit = commitOf({ epoch: lease.epoch, now: () => clock.now() }, state, left);
      const steps = commit.steps.map((step) => step.record);
      if (steps.length > 0) await store.append(lease, steps, { status: taskState(commit.after), barrier: true });
      return true;
    } finally {
      await store.release(lease);
    }
  } catch (error) {
    if (!AgentLoopError.isInstance(error) || error.code !== 'BUSY') throw error;
    const { commands } = foldRecords(await store.read(taskId));
    return records.every(({ command }) => commands.includes(command ?? ''));
  }
}

/** Resolves when the turn's owner has written something that may be the answers or its leave, or after a while. */
async function change({ store, taskId, clock }: Reply): Promise<void> {
  const { seq } = foldRecords(await store.read(taskId));
  const records$ = store.follow(taskId, { from: seq + 1 }).pipe(
    filter(({ type }) => type === 'record'),
    map((signal) => signal.type === 'record' && isTerminal(signal.record)),
  );
  const pause$ = new Observable<boolean>((to) => clock.schedule(lookAgainMs, () => to.next(false)));
  const ended = await firstValueFrom(merge(records$, pause$), { defaultValue: false });
  if (ended) throw over(taskId);
}

function over(taskId: string): AgentLoopError {
  return new AgentLoopError('TERMINAL', `Task "${taskId}" is over; nothing can be answered any more.`, { taskId });
}

function late(taskId: string, ms: number): AgentLoopError {
  return new AgentLoopError(
    'BUSY',
    `The owner of task "${taskId}" did not record the answers within ${ms} ms; they wait for it, look again later.`,
    { taskId, retryable: true },
  );
}

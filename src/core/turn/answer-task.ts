import { type Clock, systemClock } from '../contracts/clock.ts';
import { AgentLoopError } from '../contracts/errors.ts';
import type { TaskStateStore } from '../contracts/store.ts';
import { foldRecords } from '../journal/apply-record.ts';
import type { LoopState } from '../journal/state.ts';
import { ready } from '../journal/when-ready.ts';
import { type Answers, recordsOfAnswers } from '../options/check-answers.ts';
import { appendFromOutside } from '../ownership/outside-append.ts';
import { childOf } from './open-turn.ts';

export interface AnswerOptions {
  readonly store: TaskStateStore;
  /** By question id, e.g. `{ '1:0': { approved: true } }`. */
  readonly answers: Answers;
  /** How long an owner of the turn may take to record them. Milliseconds; default 30,000. */
  readonly deadlineMs?: number | undefined;
  readonly clock?: Clock | undefined;
  /** The id of the command that delivers an answer to the owner, by its question: a repeated id is applied once. Default: new ones. */
  readonly commandId?: ((questionId: string) => string) | undefined;
}

/**
 * Answers questions of a task from any process: its owner receives the answers; if it has none, they are written here. Resolves once they
 * are recorded. Errors: `INVALID_INPUT`, `CONFLICT` as for `recordsOfAnswers`; `NOT_FOUND`, `TERMINAL`, `UNAVAILABLE`; `BUSY` where the
 * owner, or the store, did not do so in time.
 */
export async function answerTask(taskId: string, options: AnswerOptions & { readonly root?: boolean }): Promise<void> {
  const { store, answers, deadlineMs = 30_000, clock = systemClock, commandId = newId } = options;
  const deadline = { ms: deadlineMs, clock, option: 'deadlineMs' };
  const state = foldRecords(await ready(() => store.read(taskId), deadline));
  const { parent } = state.turn;
  if (parent && options.root) throw childOf(taskId, parent);
  const ids = new Map<string, string>();
  for (const { questionId, answer } of open(state, answers)) {
    const id = commandId(questionId);
    ids.set(questionId, id);
    await ready(() => store.post(taskId, { id, type: 'answer', questionId, answer }), deadline);
  }
  const missing = (now: LoopState) => {
    const records = open(now, answers);
    return records.length === 0 ? 'done' : records.map((each) => ({ ...each, ...commandOf(ids, each.questionId) }));
  };
  if (await appendFromOutside({ store, taskId, clock, deadlineMs, missing })) return;
  const message = `The answers for task "${taskId}" were not recorded within ${deadlineMs} ms; its owner, if it lives, still gets them.`;
  throw new AgentLoopError('BUSY', message, { taskId, retryable: true });
}

function newId(): string {
  return crypto.randomUUID();
}

/** What is not recorded yet. A turn that is over takes no more. */
function open(state: LoopState, answers: Answers) {
  const { taskId } = state.turn;
  if (!state.isComplete) return recordsOfAnswers(state, answers);
  const known = new Set(state.answers.map(({ question }) => question.id));
  if (Object.keys(answers).every((id) => known.has(id))) return recordsOfAnswers(state, answers);
  throw new AgentLoopError('TERMINAL', `Task "${taskId}" is over; nothing can be answered any more.`, { taskId });
}

function commandOf(ids: ReadonlyMap<string, string>, questionId: string): { readonly command?: string } {
  const command = ids.get(questionId);
  return command === undefined ? {} : { command };
}

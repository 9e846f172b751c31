import { AgentLoopError } from '../contracts/errors.ts';
import { shownValue } from '../contracts/shown-value.ts';
import type { Reconciled } from '../contracts/tool.ts';
import { innermostQuestion } from '../journal/child-questions.ts';
import type { Question, TurnAnswered } from '../journal/records.ts';
import { type LoopState, openQuestions } from '../journal/state.ts';

/** Answers by the `id` of their questions, e.g. `{ '1:0': { approved: true } }`. */
export type Answers = Readonly<Record<string, unknown>>;

/**
 * The records of answers to a turn's open questions, each answer as it comes back from JSON. One that is in the journal already gives
 * none. Errors: `INVALID_INPUT` for what is no open question, naming those that are, and for an answer of the wrong form; `CONFLICT`
 * for an answer that differs from the one that was given.
 */
export function recordsOfAnswers(state: LoopState, answers: Answers): readonly TurnAnswered[] {
  if (!isPlainObject(answers)) {
    throw invalid(state, `answers must be an object by question id, not ${shownValue(answers)}`);
  }
  return Object.entries(answers).flatMap(([questionId, answer]) => {
    const open = openQuestions(state).find(({ id }) => id === questionId);
    if (open) return [recordOfAnswer(state, open, answer)];
    const given = state.answers.find(({ question }) => question.id === questionId);
    if (!given) throw invalid(state, `there is no open question ${shownValue(questionId)}; ${openOnes(state)}`);
    if (stableJson(given.answer) === stableJson(answer)) return [];
    const { taskId } = state.turn;
    const message = `Question "${questionId}" of task "${taskId}" was answered otherwise before.`;
    throw new AgentLoopError('CONFLICT', message, { taskId });
  });
}

function recordOfAnswer(state: LoopState, { id, callId, ...question }: Question, answer: unknown): TurnAnswered {
  const normal = asJson(answer);
  const flaw = answerFlaw({ id, callId, ...question }, normal);
  if (flaw !== undefined) throw invalid(state, flaw);
  return { type: 'turn.answered', callId, questionId: id, answer: normal };
}

/** What is wrong with an answer, and what it should be; `undefined` where it fits its question, or that of the child turn which asks. */
export function answerFlaw(question: Question, answer: unknown): string | undefined {
  const { id } = question;
  const { kind } = innermostQuestion(question);
  const who = `the answer to question "${id}"`;
  if (answer === undefined) return `${who} is not JSON; give text, numbers, lists or plain objects`;
  const fields: Readonly<Record<string, unknown>> = isPlainObject(answer) ? { ...answer } : {};
  switch (kind) {
    case 'approval':
      if (typeof fields['approved'] === 'boolean') return reasonFlaw(who, fields['reason']) ?? editFlaw(who, fields);
      return `${who} must be { "approved": true } or { "approved": false, "reason": "…" }`;
    case 'in-doubt':
      if (isReconciled(answer)) return undefined;
      return `${who} must be { "outcome": "applied", "content": "…" }, { "outcome": "not-applied" } or { "outcome": "unknown" }`;
    case 'client-tool':
      if ('result' in fields !== 'error' in fields && typeof (fields['error'] ?? '') === 'string') return undefined;
      return `${who} must be { "result": … } or { "error": "…" }`;
    case 'input':
    case 'auth':
      return undefined;
  }
}

/** Whether somebody said in a way that can be used what became of a call in doubt. */
export function isReconciled(said: unknown): said is Reconciled {
  if (!isPlainObject(said)) return false;
  const { outcome, content }: { readonly outcome?: unknown; readonly content?: unknown } = said;
  return outcome === 'applied' ? typeof content === 'string' : outcome === 'not-applied' || outcome === 'unknown';
}

/** A value as it comes back from JSON; `undefined` where it has no JSON form. */
export function asJson(value: unknown): unknown {
  try {
    const text = JSON.stringify(value);
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The JSON of a value, the same whatever the order of its members. */
export function stableJson(value: unknown): string {
  const sorted = (_: string, member: unknown) =>
    isPlainObject(member) ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1))) : member;
  return JSON.stringify(asJson(value), sorted) ?? '';
}

function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype || !(Symbol.iterator in value);
}

function reasonFlaw(who: string, reason: unknown): string | undefined {
  return reason === undefined || typeof reason === 'string' ? undefined : `the reason of ${who} must be a string`;
}

/** Members by which other engines let an approval change a call. To ignore them would run what nobody approved. */
const edits = ['arguments', 'args', 'editedArguments', 'editedAction', 'updatedInput', 'input'];

function editFlaw(who: string, fields: Readonly<Record<string, unknown>>): string | undefined {
  const edit = edits.find((name) => name in fields);
  if (edit === undefined) return undefined;
  const cure = 'reject it with a reason that says what to change, and the model calls again';
  return `${who} has the unknown member "${edit}": an approval cannot change the arguments of a call; ${cure}`;
}

function openOnes(state: LoopState): string {
  const open = openQuestions(state).map(({ id, kind, toolName }) => `"${id}" (${kind}, ${toolName})`);
  return open.length > 0 ? `open questions: ${open.join(', ')}` : 'the turn has no open question';
}

function invalid(state: LoopState, what: string): AgentLoopError {
  const { taskId } = state.turn;
  return new AgentLoopError('INVALID_INPUT', `Task "${taskId}": ${what}.`, { taskId });
}

import { AgentLoopError } from '../contracts/errors.ts';
import { innermostQuestion, isQuestion, kindAbove, memberOf } from '../contracts/innermost-question.ts';
import type { AskOptions, ChildLink, Reconciled } from '../contracts/tool.ts';
import { givenJson, isPlainObject, maxJsonDepth, shownValue, stableJson } from '../contracts/values.ts';
import type { Question, TurnAnswered } from './records.ts';
import { type LoopFields, type LoopState, openCallOf, type PendingToolCall } from './state.ts';

/** The task whose question a call asks again, from the options of `ask` and the child turn that the call runs as. */
export function taskAskedFor({ task, data }: AskOptions, child: ChildLink | undefined): ChildLink | undefined {
  if (task) return { taskId: task.taskId, agentId: task.agentId };
  return child && memberOf(data, 'taskId') === child.taskId ? child : undefined;
}

/**
 * Adds the `child` that earlier versions did not record to a recorded question, from the child turn that its call runs as. Each nested question
 * must name the task that its call runs as, whose id derives from its ancestors.
 */
export function withChild(question: Question, state: LoopFields): Question {
  const { turn } = state;
  if (question.child || question.kind === 'approval' || question.kind === 'in-doubt') return question;
  const taskId = idBelow(turn.taskId, question.callId);
  const pending = openCallOf(state, question.callId);
  const child = pending?.child ?? (turn.namesNoChildren && { taskId, agentId: '' });
  return child ? named(question, child) : question;
}

function named(question: Question, { taskId, agentId }: ChildLink): Question {
  const { data } = question;
  const inner = memberOf(data, 'question');
  if (memberOf(data, 'taskId') !== taskId || !isQuestion(inner) || question.kind !== kindAbove(inner)) return question;
  const by = memberOf(data, 'agentId');
  const below = { taskId: idBelow(taskId, inner.callId), agentId: '' };
  const again = inner.child ? inner : named(inner, below);
  const child = { taskId, agentId: agentId === '' && typeof by === 'string' ? by : agentId };
  return { ...question, data: again === inner ? data : { ...Object(data), question: again }, child };
}

/** Derives the child turn's task id as a call does. A longer id is a digest; questions of such a turn are not resolved. */
function idBelow(taskId: string, callId: string): string {
  return `${taskId}:${callId}`;
}

/** Replaces the questions of a record by the open ones of the state. */
export function asOpen(state: LoopFields, questions: readonly Question[]): readonly Question[] {
  if (questions.length === 0) return questions;
  const open = openQuestions(state);
  return questions.map((question) => open.find(({ id }) => id === question.id) ?? question);
}

/** The id of a call's next question. */
export function nextQuestionId({ callId, answers }: Pick<PendingToolCall, 'callId' | 'answers'>): string {
  return answers.length === 0 ? callId : `${callId}.${answers.length + 1}`;
}

/** The open questions, in call order. */
export function openQuestions(state: LoopFields): readonly Question[] {
  return state.calls.list.flatMap(({ question, result }) => (question && !result ? [question] : []));
}

/** Whether the turn can do nothing before a question is answered: every call without a result has asked one. */
export function waitsForAnswers({ phase, calls }: LoopFields): boolean {
  return phase === 'tools' && calls.list.every(({ question, result }) => question || result);
}

/** Answers by the `id` of their questions, e.g. `{ '1:0': { approved: true } }`. */
export type Answers = Readonly<Record<string, unknown>>;

/**
 * The records of answers to a turn's open questions, each answer in its JSON form. Skips answers that are recorded
 * already. Errors: `INVALID_INPUT` for a question that is not open, naming those that are, and for an answer of the wrong form; `CONFLICT`
 * for an answer that differs from the recorded one.
 */
export function recordsOfAnswers(state: LoopState, answers: Answers): readonly TurnAnswered[] {
  if (!isPlainObject(answers)) {
    throw refused(state, `answers must be an object by question id, not ${shownValue(answers)}`);
  }
  return Object.entries(answers).flatMap(([questionId, answer]) => {
    const open = openQuestions(state).find(({ id }) => id === questionId);
    if (open) return [recordOfAnswer(state, open, answer)];
    const isKnown = checkGivenAnswer(state, questionId, answer);
    if (!isKnown) throw refused(state, `there is no open question ${shownValue(questionId)}; ${openOnes(state)}`);
    return [];
  });
}

/** Errors: `CONFLICT` if one of the questions was answered otherwise. Answers to questions that are open or unknown pass. */
export function checkGivenAnswers(state: LoopState, answers: Answers): void {
  for (const [questionId, answer] of Object.entries(answers)) checkGivenAnswer(state, questionId, answer);
}

/** Whether the question has this answer. Errors: `CONFLICT` if it has another. */
function checkGivenAnswer(state: LoopState, questionId: string, answer: unknown): boolean {
  const given = state.answers.find(({ question }) => question.id === questionId);
  if (!given) return false;
  if (stableJson(given.answer) === stableJson(answer)) return true;
  const { taskId } = state.turn;
  const message = `Question "${questionId}" of task "${taskId}" was answered otherwise before.`;
  throw new AgentLoopError('CONFLICT', message, { taskId });
}

function recordOfAnswer(state: LoopState, { id, callId, ...question }: Question, answer: unknown): TurnAnswered {
  const normal = givenJson(answer);
  const flaw = answerFlaw({ id, callId, ...question }, normal);
  if (flaw !== undefined) throw refused(state, flaw);
  return { type: 'turn.answered', callId, questionId: id, answer: normal };
}

/** Returns what is wrong with an answer and what is required; `undefined` if it is valid for its question, or for the child turn's original. */
export function answerFlaw(question: Question, answer: unknown): string | undefined {
  const { id } = question;
  const { kind } = innermostQuestion(question);
  const who = `the answer to question "${id}"`;
  if (answer === undefined)
    return `${who} is not JSON of at most ${maxJsonDepth} levels; pass strings, numbers, arrays or plain objects`;
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

/** Whether a value is a valid outcome of a call in doubt. */
export function isReconciled(said: unknown): said is Reconciled {
  if (!isPlainObject(said)) return false;
  const { outcome, content }: { readonly outcome?: unknown; readonly content?: unknown } = said;
  return outcome === 'applied' ? typeof content === 'string' : outcome === 'not-applied' || outcome === 'unknown';
}

function reasonFlaw(who: string, reason: unknown): string | undefined {
  return reason === undefined || typeof reason === 'string' ? undefined : `the reason of ${who} must be a string`;
}

/** Members by which other engines let an approval change a call. Ignoring them would run arguments that were not approved. */
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

function refused(state: LoopState, what: string): AgentLoopError {
  const { taskId } = state.turn;
  return new AgentLoopError('INVALID_INPUT', `Task "${taskId}": ${what}.`, { taskId });
}

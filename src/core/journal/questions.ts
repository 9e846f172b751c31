import { isLink, isQuestion, kindAbove, memberOf } from '../contracts/innermost-question.ts';
import type { ChildLink } from '../contracts/tool.ts';
import type { Question } from './records.ts';
import { type LoopFields, openCallOf, type PendingToolCall } from './state.ts';

/**
 * Where the options of `ask` name the task whose question is asked again. A symbol: neither the JSON of a model nor that of a server can
 * hold it.
 */
const askingTask: unique symbol = Symbol.for('millrace.askingTask');

/** The options of `ask` for the question of another task, which `data.question` holds. */
export function askedFor<O extends object>(options: O, task: ChildLink | undefined): O {
  return task ? Object.assign({}, options, { [askingTask]: task }) : options;
}

/** The task whose question a call asks again, by the options of `ask` and the child turn that the call runs as. */
export function taskAskedFor(options: object, child: ChildLink | undefined): ChildLink | undefined {
  const named: unknown = Reflect.get(options, askingTask);
  if (isLink(named)) return { taskId: named.taskId, agentId: named.agentId };
  return child && memberOf(Reflect.get(options, 'data'), 'taskId') === child.taskId ? child : undefined;
}

/**
 * A question as a record has it, with the `child` that versions before did not record: by the child turn that its call runs as. Of the
 * questions that such a one asks again each has to name the task that its call runs as, whose id follows from those above it.
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

/** As a call derives the task of its child turn. A longer id is a digest; no question of such a turn is followed. */
function idBelow(taskId: string, callId: string): string {
  return `${taskId}:${callId}`;
}

/** The open ones of a state, in place of what a record has of them. */
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

/** Whether nothing can be done before a question is answered: every call without a result has asked one. */
export function waitsForAnswers({ phase, calls }: LoopFields): boolean {
  return phase === 'tools' && calls.list.every(({ question, result }) => question || result);
}

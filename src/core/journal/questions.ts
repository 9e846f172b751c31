import { isLink, isQuestion, kindAbove, memberOf } from '../contracts/innermost-question.ts';
import type { ChildLink } from '../contracts/tool.ts';
import type { Question } from './records.ts';
import { type LoopFields, openCallOf, type PendingToolCall } from './state.ts';

/**
 * The key under which the options of `ask` name the task whose question is asked again. A symbol: JSON from a model or a server cannot
 * contain it.
 */
const askingTask: unique symbol = Symbol.for('millrace.askingTask');

/** Adds the task to the options of `ask` for the question of another task, which `data.question` contains. */
export function askedFor<O extends object>(options: O, task: ChildLink | undefined): O {
  return task ? Object.assign({}, options, { [askingTask]: task }) : options;
}

/** The task whose question a call asks again, from the options of `ask` and the child turn that the call runs as. */
export function taskAskedFor(options: object, child: ChildLink | undefined): ChildLink | undefined {
  const named: unknown = Reflect.get(options, askingTask);
  if (isLink(named)) return { taskId: named.taskId, agentId: named.agentId };
  return child && memberOf(Reflect.get(options, 'data'), 'taskId') === child.taskId ? child : undefined;
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

import type { Question } from '../journal/records.ts';
import type { ChildLink } from './tool.ts';

/** The kind of the question with which a call asks another task's question again: the same kind if a call may use it. */
export function kindAbove({ kind }: Pick<Question, 'kind'>): 'input' | 'auth' | 'client-tool' {
  return kind === 'auth' || kind === 'client-tool' ? kind : 'input';
}

/**
 * The original of a question: a question of a child turn, at any depth, is asked again by the call of its parent turn, whose `data`
 * contains it. Only the engine's `child` marks a question as asked again; `data` may come from a model and
 * is never trusted for that.
 */
export function innermostQuestion(question: Question): Question {
  let innermost = question;
  for (let inner = questionBelow(question); inner; inner = questionBelow(inner)) innermost = inner;
  return innermost;
}

function questionBelow({ kind, child, data }: Question): Question | undefined {
  const inner = child && memberOf(data, 'question');
  return isQuestion(inner) && kind === kindAbove(inner) ? inner : undefined;
}

export function isQuestion(value: unknown): value is Question {
  if (typeof value !== 'object' || value === null) return false;
  const { id, callId, kind, toolName, prompt = '', child }: { readonly [Name in keyof Question]?: unknown } = value;
  const kinds: readonly unknown[] = ['approval', 'input', 'client-tool', 'auth', 'in-doubt'];
  const texts = [id, callId, toolName, prompt].every((text) => typeof text === 'string');
  return texts && kinds.includes(kind) && (child === undefined || isLink(child));
}

export function isLink(value: unknown): value is ChildLink {
  return typeof memberOf(value, 'taskId') === 'string' && typeof memberOf(value, 'agentId') === 'string';
}

export function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}

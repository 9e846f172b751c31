import type { Part, Message as WireMessage } from '@a2a-js/sdk';
import { innermostQuestion, type LoopState, openQuestions, type Question } from '../core/journal/index.ts';
import type { Answers } from '../core/options/index.ts';
import { malformed } from './protocol-errors.ts';

/** The content of a message to a task: answers to its questions, and other content for the model. */
export interface Received {
  readonly answers: Answers;
  /** The parts that answer nothing. */
  readonly rest: readonly Part[];
}

/**
 * Finds the answers in a message: data parts `{ answers: { [question id]: … } }`; where one question is open, a data part is its answer as
 * it stands, and so is text for a question that takes any answer. Errors: RequestMalformed, naming what is asked, where questions are
 * open and nothing answers one.
 */
export function receivedAnswers(state: LoopState, { parts }: WireMessage): Received {
  const open = openQuestions(state);
  const named = parts.flatMap((part) => namedAnswers(part) ?? []);
  const answers: Answers = Object.assign({}, ...named);
  const rest = parts.filter((part) => namedAnswers(part) === undefined);
  if (Object.keys(answers).length > 0 || open.length === 0) return { answers, rest };
  const [only] = open;
  const answer = only && open.length === 1 && named.length === 0 ? answerIn(parts, only) : undefined;
  if (only && answer) return { answers: { [only.id]: answer.value }, rest: answer.rest };
  if (state.outcome) throw malformed(`The task waits for answers: ${open.map(formOf).join('; ')}.`);
  return { answers, rest };
}

/** The answers of a data part `{ answers: … }`; `undefined` for another part. */
export function namedAnswers({ content }: Part): Answers | undefined {
  if (content?.$case !== 'data') return undefined;
  const data: unknown = content.value;
  if (typeof data !== 'object' || data === null || !('answers' in data)) return undefined;
  const { answers } = data;
  return isObject(answers) ? { ...answers } : undefined;
}

/** The answer to the only question, as far as the parts have one. */
function answerIn(
  parts: readonly Part[],
  question: Question,
): { readonly value: unknown; readonly rest: readonly Part[] } | undefined {
  const data = parts.find(({ content }) => content?.$case === 'data');
  const { kind } = innermostQuestion(question);
  if (data?.content) return { value: data.content.value, rest: parts.filter((part) => part !== data) };
  if (kind !== 'input' && kind !== 'auth') return undefined;
  const texts = parts.flatMap(({ content }) => (content?.$case === 'text' ? [content.value] : []));
  return texts.length === 0
    ? undefined
    : { value: texts.join('\n'), rest: parts.filter(({ content }) => content?.$case !== 'text') };
}

/** How a question is answered. */
function formOf(question: Question): string {
  const { id, toolName } = question;
  const { kind } = innermostQuestion(question);
  return `"${id}" (${toolName}) with a data part { "answers": { "${id}": ${shape(kind)} } }`;
}

function shape(kind: Question['kind']): string {
  switch (kind) {
    case 'approval':
      return '{ "approved": true }';
    case 'client-tool':
      return '{ "result": … }';
    case 'in-doubt':
      return '{ "outcome": "applied", "content": "…" }';
    case 'input':
    case 'auth':
      return '…';
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

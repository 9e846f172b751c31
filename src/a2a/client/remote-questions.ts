import type { ToolContext } from '../../core/contracts/index.ts';
import { askedFor, kindAbove, type Question } from '../../core/journal/index.ts';
import { type PartJson, partOfAnswer } from './remote-parts.ts';

/** What the other side waits for. */
export interface Asked {
  readonly taskId: string;
  readonly kind: 'input' | 'auth';
  readonly prompt: string;
  /** What it said, as parts of the protocol. */
  readonly parts: readonly PartJson[];
}

/**
 * Asks what the other side asks, and gives the part that answers it. The questions of a turn of Millrace are asked one after another, each
 * with its data and answered in its form; of other servers there is one, answered by text or by data.
 */
export function answerOf({ taskId: remoteTaskId, kind, prompt, parts }: Asked, context: ToolContext): PartJson {
  const { ask, agentId } = context;
  const questions = parts.flatMap(questionIn);
  if (questions.length === 0) return partOfAnswer(ask({ kind, prompt, data: { remoteTaskId, parts } }));
  const answers = questions.map((question) => {
    const words = questions.length === 1 ? prompt : wordsOf(question);
    const asked = { kind: kindAbove(question), prompt: words, data: { remoteTaskId, question } };
    return [question.id, ask(askedFor(asked, { taskId: remoteTaskId, agentId }))] as const;
  });
  return { data: { answers: Object.fromEntries(answers) } };
}

/** The question that a data part of Millrace holds. */
function questionIn({ data }: PartJson): readonly Question[] {
  const question: unknown = isObject(data) ? data['question'] : undefined;
  return isQuestion(question) ? [question] : [];
}

function isQuestion(value: unknown): value is Question {
  return isObject(value) && ['id', 'callId', 'kind', 'toolName'].every((name) => typeof value[name] === 'string');
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

function wordsOf({ prompt, kind, toolName }: Question): string {
  return prompt ?? `${kind} of ${toolName}`;
}

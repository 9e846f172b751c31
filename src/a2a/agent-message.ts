import type { Message, Part } from '@a2a-js/sdk';
import type { ErrorCode } from '../core/contracts/index.ts';
import type { Question } from '../core/journal/index.ts';
import { dataPart, textPart } from './parts.ts';
import { shownContext } from './scope.ts';

interface TaskNames {
  readonly taskId: string;
  readonly contextId: string;
}

/** A message of the agent within a task. `contextId` is ours, with the owner's digest. */
export function agentMessage({ taskId, contextId }: TaskNames, messageId: string, parts: Part[]): Message {
  return {
    messageId,
    taskId,
    contextId: shownContext(contextId),
    role: 2,
    parts,
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  };
}

/** What a completed turn says: its text, and its value where it has one. */
export function finalMessage(task: TaskNames, text: string, value: unknown): Message | undefined {
  const parts = [...(text === '' ? [] : [textPart(text)]), ...(value === undefined ? [] : [dataPart(value)])];
  return parts.length === 0 ? undefined : agentMessage(task, finalId(task.taskId), parts);
}

export function finalId(taskId: string): string {
  return `${taskId}:final`;
}

/** What the agent asks: for people the words, for programs a data part `{ question }` each, to be answered by `{ answers: { [id]: … } }`. */
export function questionMessage(task: TaskNames, questions: readonly Question[]): Message | undefined {
  if (questions.length === 0) return undefined;
  const id = `${task.taskId}:asks:${questions.map((question) => question.id).join(',')}`;
  return agentMessage(task, id, [textPart(questions.map(wordsOf).join('\n')), ...questions.map(questionPart)]);
}

function questionPart({ id, callId, kind, toolName, prompt, data, child }: Question): Part {
  const question = {
    id,
    callId,
    kind,
    toolName,
    ...(prompt !== undefined && { prompt }),
    ...(data !== undefined && { data }),
    ...(child && { child }),
  };
  return dataPart({ question });
}

function wordsOf({ kind, toolName, prompt }: Question): string {
  if (prompt !== undefined) return prompt;
  switch (kind) {
    case 'approval':
      return `May "${toolName}" run?`;
    case 'client-tool':
      return `Run "${toolName}" and send what it returned.`;
    case 'in-doubt':
      return `"${toolName}" was cut off: did it take effect?`;
    case 'auth':
      return `"${toolName}" needs you to sign in.`;
    case 'input':
      return `"${toolName}" needs an answer.`;
  }
}

/** The message of a failed task for clients. Error messages of the engine may name servers and are not sent. */
export function failureMessage(task: TaskNames, code: ErrorCode): Message {
  return agentMessage(task, finalId(task.taskId), [textPart(failureWords(code))]);
}

function failureWords(code: ErrorCode): string {
  switch (code) {
    case 'MAX_ITERATIONS':
    case 'LIMIT':
      return 'The agent reached a limit before it was done.';
    case 'LENGTH':
      return 'The answer was longer than the agent may write.';
    case 'CONTENT_FILTER':
    case 'GUARDRAIL':
      return 'The request or the answer is against the rules of the agent.';
    case 'AGENT_BUSY':
      return 'Another task of this context is not over; wait for it, answer it or cancel it.';
    default:
      return code.startsWith('PROVIDER_')
        ? 'The agent could not reach its model.'
        : 'The agent could not finish the task.';
  }
}

import { type ChatMessage, isObject } from '../model-server/chat-request.ts';
import { type Outcome, outcomeOf } from './outcome-of.ts';

/** A tool call and what came of it. */
export interface Finding {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly outcome: Outcome;
}

export interface Prompt {
  readonly text: string;
  /** It came when there were findings already: steering, or an instruction from outside. */
  readonly isLate: boolean;
}

/** The conversation as the model sees it: what is open, and what was before. */
export interface Conversation {
  /** The user's messages since the last complete answer. */
  readonly prompts: readonly Prompt[];
  readonly findings: readonly Finding[];
  readonly earlierPrompts: readonly string[];
  readonly earlierFindings: readonly Finding[];
  readonly earlierAnswers: readonly string[];
}

/** Reads the messages; an answer without calls closes what was open before it. */
export function conversationOf(messages: readonly ChatMessage[]): Conversation {
  const isAnswer = ({ role, calls }: ChatMessage): boolean => role === 'assistant' && calls.length === 0;
  const end = messages.findLastIndex(isAnswer) + 1;
  const [earlier, open] = [messages.slice(0, end), messages.slice(end)];
  const firstFinding = open.findIndex(({ role }) => role === 'tool');
  return {
    prompts: open.flatMap(({ role, text }, index) =>
      role === 'user' ? [{ text, isLate: firstFinding >= 0 && index > firstFinding }] : [],
    ),
    findings: findingsIn(open),
    earlierPrompts: earlier.flatMap(({ role, text }) => (role === 'user' ? [text] : [])),
    earlierFindings: findingsIn(earlier),
    earlierAnswers: earlier.filter(isAnswer).map(({ text }) => text),
  };
}

function findingsIn(messages: readonly ChatMessage[]): readonly Finding[] {
  const results = new Map(messages.flatMap(({ callId, text }) => (callId === undefined ? [] : [[callId, text]])));
  return messages.flatMap(({ calls }) =>
    calls.flatMap((call) => {
      const result = results.get(call.id);
      if (result === undefined) return [];
      return [{ name: call.name, arguments: argumentsOf(call.arguments), outcome: outcomeOf(result) }];
    }),
  );
}

function argumentsOf(text: string): Finding['arguments'] {
  try {
    const parsed: unknown = JSON.parse(text);
    return isObject(parsed) ? parsed : {};
  } catch {
    return {};
  }
}

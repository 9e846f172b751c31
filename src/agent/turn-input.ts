import { AgentLoopError, checkMessages, type Message, shownValue } from '../core/contracts/index.ts';

/** The input of a turn: a string, a message, or an array of at least one. */
export type TurnInput = string | Message | readonly Message[];

/** Errors: `INVALID_INPUT`. */
export function messagesOf(input: TurnInput): readonly Message[] {
  if (typeof input !== 'string' && (typeof input !== 'object' || input === null)) {
    const what = `a turn is given a string, a message or an array of messages, not ${shownValue(input)}`;
    throw new AgentLoopError('INVALID_INPUT', `${what}; write startTurn("Hello").`);
  }
  const messages: readonly Message[] =
    typeof input === 'string' ? [{ role: 'user', content: input }] : isList(input) ? input : [input];
  checkMessages(messages);
  if (messages.length === 0) {
    const what = 'a turn is given at least one message, not an empty array';
    throw new AgentLoopError('INVALID_INPUT', `${what}; to continue a turn write resume(taskId).`);
  }
  return messages;
}

function isList(input: Message | readonly Message[]): input is readonly Message[] {
  return Array.isArray(input);
}

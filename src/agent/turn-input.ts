import { checkMessages } from '../core/check-messages.ts';
import type { Message } from '../core/messages.ts';

/** What a turn is given: a text, a message, or several. */
export type TurnInput = string | Message | readonly Message[];

/** Errors: `INVALID_INPUT`. */
export function messagesOf(input: TurnInput): readonly Message[] {
  const messages: readonly Message[] =
    typeof input === 'string' ? [{ role: 'user', content: input }] : isList(input) ? input : [input];
  checkMessages(messages);
  return messages;
}

function isList(input: Message | readonly Message[]): input is readonly Message[] {
  return Array.isArray(input);
}

import type { Message } from '@a2a-js/sdk';
import type { TurnAnswered } from '../core/journal/index.ts';
import { dataPart } from './parts.ts';
import { shownContext } from './scope.ts';

const pattern = /^a2a(?:~[\w-]*)?\/[^/]*\/(.*)$/s;

/** What the message of a command is for. */
export interface CommandOptions {
  /** The question that it answers. Default: it answers none. */
  readonly questionId?: string;
  /** `Scope.sender`. */
  readonly sender?: string;
}

/** The id of the command by which a message is followed, one for each question that it answers: a repeated one is followed once. */
export function commandOf(messageId: string, { questionId = '', sender = '' }: CommandOptions = {}): string {
  return `a2a${sender && `~${sender}`}/${questionId}/${messageId}`;
}

/** The message that a command is of; `undefined` where it is of none. */
export function messageOfCommand(command: string): string | undefined {
  return pattern.exec(command)?.[1];
}

/** Whether a command is one of a sender's message. Those of older journals name no sender. */
export function isCommandOf(command: string, messageId: string, { sender }: { readonly sender: string }): boolean {
  const prefixes = [sender, ''].map((each) => commandOf('', { sender: each }).slice(0, -1));
  return prefixes.some((prefix) => command.startsWith(prefix)) && messageOfCommand(command) === messageId;
}

/** Adds what a client answered to the history: one message for all answers that it sent in one. */
export function addAnswer(
  history: Message[],
  { taskId, contextId }: { readonly taskId: string; readonly contextId: string },
  { questionId, answer, command = '' }: TurnAnswered,
): void {
  const messageId = messageOfCommand(command) ?? `${taskId}:answers:${questionId}`;
  const last = history.at(-1);
  const part = dataPart({ answers: { [questionId]: answer } });
  if (last?.messageId === messageId) {
    last.parts.push(part);
    return;
  }
  history.push({
    messageId,
    taskId,
    contextId: shownContext(contextId),
    role: 1,
    parts: [part],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  });
}

import type { Message, UserMessage } from '../../core/messages.ts';
import { textOf } from '../../core/messages.ts';
import { type PartJson, partsOf } from './remote-parts.ts';

/** What a call of the other side came to, as it stands in the history. */
export interface RemoteReference {
  /** Absent where it answered at once, without a task. */
  readonly taskId?: string;
  readonly contextId?: string;
  /** The answer, where there is no task. */
  readonly text?: string;
  /** The status that the message replied to: it is over, also where the other side still shows it. */
  readonly answered?: string;
}

/** What is to be done next. */
export type RemoteStep =
  | { readonly type: 'send'; readonly parts: readonly PartJson[]; readonly contextId: string | undefined }
  | { readonly type: 'follow'; readonly reference: RemoteReference };

/**
 * Where a conversation with the other side stands is what the history holds: messages of the user that nothing came behind are to be
 * sent, in the remote context of those before; else the task of the last message is to be followed.
 */
export function nextStep(messages: readonly Message[]): RemoteStep {
  const reference = lastReference(messages);
  const unsent = unsentOf(messages);
  if (unsent.length === 0 && reference) return { type: 'follow', reference };
  return { type: 'send', parts: unsent.flatMap(({ content }) => partsOf(content)), contextId: reference?.contextId };
}

function unsentOf(messages: readonly Message[]): readonly UserMessage[] {
  const behind = messages.findLastIndex(({ role }) => role === 'assistant' || role === 'tool');
  return messages.slice(behind + 1).filter((message): message is UserMessage => message.role === 'user');
}

/** The task, if any, that the last message of the history went to. */
export function lastReference(messages: readonly Message[]): RemoteReference | undefined {
  const last = messages.findLast(
    ({ role, ...rest }) => role === 'tool' && !('status' in rest && rest.status === 'error'),
  );
  return last && referenceOf(textOf(last.content));
}

function referenceOf(text: string): RemoteReference | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

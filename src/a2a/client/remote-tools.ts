import { createHash } from 'node:crypto';
import { type Message, Role } from '@a2a-js/sdk';
import type { ToolContext } from '../../tools/interfaces.ts';
import { type Tool, tool } from '../../tools/tool.ts';
import { isTask, type RemoteConnection } from './remote-connection.ts';
import { type PartJson, partFromJson, textOfParts } from './remote-parts.ts';
import type { RemoteReference } from './remote-progress.ts';
import { type Asked, answerOf } from './remote-questions.ts';

export interface SendArguments {
  readonly parts: readonly PartJson[];
  readonly contextId?: string;
}

export interface ReplyArguments extends Asked {
  readonly contextId?: string;
  /** The status that asks. */
  readonly status: string;
}

export const sendName = 'send_message';
export const replyName = 'reply';

const message = { type: 'object' } as const;

/**
 * The steps of a remote task that have an effect on the other side, each a call of the turn: its message is sent under the same id in
 * every attempt, and what it came to is in the journal, so that a resumed turn goes on with the task that there is.
 */
export function remoteTools(connection: RemoteConnection): readonly Tool[] {
  const sent = { parameters: message, timeoutMs: 0, idempotent: true, onInDoubt: 'retry' } as const;
  return [
    tool({
      name: sendName,
      description: 'Sends what the user said to the remote agent.',
      ...sent,
      execute: (args, context) => send(connection, sendOf(args), context),
    }),
    tool({
      name: replyName,
      description: 'Asks what the remote agent asks, and sends it the answer.',
      ...sent,
      async execute(args, context) {
        const { status, ...asked } = replyOf(args);
        const parts = [answerOf(asked, context)];
        return { ...(await send(connection, { ...asked, parts }, context)), answered: status };
      },
    }),
  ];
}

type Given = Readonly<Record<string, unknown>>;

function sendOf({ parts, contextId }: Given): SendArguments {
  return { parts: partsGiven(parts), ...(typeof contextId === 'string' && { contextId }) };
}

function replyOf({ taskId, kind, prompt, status, ...rest }: Given): ReplyArguments {
  return {
    ...sendOf(rest),
    taskId: String(taskId),
    kind: kind === 'auth' ? 'auth' : 'input',
    prompt: String(prompt),
    status: String(status),
  };
}

function partsGiven(parts: unknown): readonly PartJson[] {
  return Array.isArray(parts) ? parts.filter((part) => typeof part === 'object' && part !== null) : [];
}

async function send(
  connection: RemoteConnection,
  { parts, contextId = '', taskId = '' }: SendArguments & { readonly taskId?: string },
  { idempotencyKey, signal, traceContext }: ToolContext,
): Promise<RemoteReference> {
  const outgoing: Message = {
    messageId: messageIdOf(idempotencyKey),
    contextId,
    taskId,
    role: Role.ROLE_USER,
    parts: parts.map(partFromJson),
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  };
  const result = await connection.send(outgoing, { signal, traceContext });
  if (isTask(result)) return { taskId: result.id, contextId: result.contextId };
  return { text: textOfParts(result.parts), ...(result.contextId && { contextId: result.contextId }) };
}

/** The same in every attempt; it tells the other side nothing of ours. */
function messageIdOf(idempotencyKey: string): string {
  return createHash('sha256').update(idempotencyKey).digest('hex').slice(0, 32);
}

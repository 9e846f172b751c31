import type { ErrorCode } from '../core/errors.ts';
import type { Content, Message } from '../core/messages.ts';
import type { AgentNotice } from './agent-events.ts';

/** What happens in a conversation, in the words of chat applications. `streamId` is the task id of the turn. */
export type TeamEvent =
  | {
      readonly type: 'message:sent';
      readonly agentId: string;
      readonly messages: readonly Message[];
      readonly streamId: string;
    }
  | {
      readonly type: 'message:received';
      readonly agentId: string;
      readonly message: Message;
      readonly streamId: string;
    }
  | { readonly type: 'stream:start'; readonly agentId: string; readonly streamId: string }
  | { readonly type: 'stream:chunk'; readonly chunk: string; readonly streamId: string }
  | {
      readonly type: 'tool:called';
      readonly tool: string;
      readonly arguments: unknown;
      readonly toolCallId: string;
      readonly streamId: string;
    }
  | {
      readonly type: 'tool:result';
      readonly tool: string;
      readonly content: Content;
      readonly success: boolean;
      readonly toolCallId: string;
      readonly streamId: string;
    }
  | { readonly type: 'stream:end'; readonly streamId: string; readonly canceled: boolean }
  | { readonly type: 'error'; readonly code: ErrorCode; readonly message: string; readonly streamId: string };

/** The events of a conversation that an agent's event stands for, in order; most stand for one or none. */
export function teamEventsOf(notice: AgentNotice): readonly TeamEvent[] {
  switch (notice.kind) {
    case 'message:sent':
      return [{ type: notice.kind, agentId: notice.agentId, messages: notice.messages, streamId: notice.taskId }];
    case 'message:received':
      return [{ type: notice.kind, agentId: notice.agentId, message: notice.message, streamId: notice.taskId }];
    case 'task':
      return [{ type: 'stream:start', agentId: notice.agentId, streamId: notice.taskId }];
    case 'artifact-update': {
      const chunk = notice.artifact.parts.map((part) => (part.kind === 'text' ? part.text : '')).join('');
      return chunk === '' ? [] : [{ type: 'stream:chunk', chunk, streamId: notice.taskId }];
    }
    case 'internal:tool-start': {
      const { toolName: tool, arguments: args, callId: toolCallId, taskId: streamId } = notice;
      return [{ type: 'tool:called', tool, arguments: args, toolCallId, streamId }];
    }
    case 'internal:tool-complete': {
      const { toolName: tool, content, success, callId: toolCallId, taskId: streamId } = notice;
      return [{ type: 'tool:result', tool, content, success, toolCallId, streamId }];
    }
    case 'status-update': {
      if (!notice.final) return [];
      const { taskId: streamId, error, status } = notice;
      const failed: readonly TeamEvent[] = error ? [{ type: 'error', ...error, streamId }] : [];
      return [...failed, { type: 'stream:end', streamId, canceled: status.state === 'canceled' }];
    }
    default:
      return [];
  }
}

import {
  type ErrorCode,
  type Message,
  partsText,
  type Tool,
  type ToolCompleteEvent,
  type ToolEvent,
  type ToolStartEvent,
} from '../core/contracts/index.ts';
import type { AgentNotice } from './agent-events.ts';

/**
 * The events of a conversation, in the terms of chat applications. `streamId` is the task id of the turn, `agentId` the agent that runs it at that
 * time; at `stream:start` it is the team.
 */
export type TeamEvent<X extends Tool = Tool> =
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
  | {
      readonly type: 'stream:chunk';
      readonly agentId: string;
      readonly chunk: string;
      /** `answer-<n>` for the text of an iteration, `answer-<n>.<index>` for that of a parallel agent, else an artifact of a tool. */
      readonly artifactId: string;
      readonly streamId: string;
    }
  | ToolMessage<ToolEvent<X>>
  | { readonly type: 'stream:end'; readonly agentId: string; readonly streamId: string; readonly canceled: boolean }
  | {
      readonly type: 'error';
      readonly agentId: string;
      readonly code: ErrorCode;
      readonly message: string;
      readonly streamId: string;
    };

export const teamEventTypes: Readonly<Record<TeamEvent['type'], true>> = {
  'message:sent': true,
  'message:received': true,
  'stream:start': true,
  'stream:chunk': true,
  'tool:called': true,
  'tool:result': true,
  'stream:end': true,
  error: true,
};

/** The event of a call or its result, from the events of a turn. */
type ToolMessage<E extends ToolStartEvent | ToolCompleteEvent> = E extends ToolCompleteEvent
  ? {
      readonly type: 'tool:result';
      readonly agentId: string;
      readonly tool: E['toolName'];
      readonly content: E['content'];
      readonly success: E['success'];
      readonly toolCallId: string;
      readonly streamId: string;
    }
  : {
      readonly type: 'tool:called';
      readonly agentId: string;
      readonly tool: E['toolName'];
      readonly arguments: E['arguments'];
      readonly toolCallId: string;
      readonly streamId: string;
    };

/** The artifacts with the answers of parallel agents; their names are the ids of the agents. */
const inParallel = /^answer-\d+\.\d+$/;

/** Maps an agent's event to the events of the conversation, in order; usually one or none. */
export function teamEventsOf<X extends Tool>(notice: AgentNotice<X>): readonly TeamEvent<X>[];
export function teamEventsOf(notice: AgentNotice): readonly TeamEvent[] {
  switch (notice.kind) {
    case 'message:sent':
      return [{ type: notice.kind, agentId: notice.agentId, messages: notice.messages, streamId: notice.taskId }];
    case 'message:received':
      return [{ type: notice.kind, agentId: notice.agentId, message: notice.message, streamId: notice.taskId }];
    case 'task':
      return [{ type: 'stream:start', agentId: notice.agentId, streamId: notice.taskId }];
    case 'artifact-update': {
      const chunk = partsText(notice.artifact.parts);
      const { artifactId, name = notice.agentId } = notice.artifact;
      const agentId = inParallel.test(artifactId) ? name : notice.agentId;
      return chunk === '' ? [] : [{ type: 'stream:chunk', agentId, chunk, artifactId, streamId: notice.taskId }];
    }
    case 'internal:tool-start': {
      const { agentId, toolName: tool, arguments: args, callId: toolCallId, taskId: streamId } = notice;
      return [{ type: 'tool:called', agentId, tool, arguments: args, toolCallId, streamId }];
    }
    case 'internal:tool-complete': {
      const { agentId, toolName: tool, content, success, callId: toolCallId, taskId: streamId } = notice;
      return [{ type: 'tool:result', agentId, tool, content, success, toolCallId, streamId }];
    }
    case 'status-update': {
      if (!notice.final) return [];
      const { agentId, taskId: streamId, error, status } = notice;
      const failed: readonly TeamEvent[] = error ? [{ type: 'error', agentId, ...error, streamId }] : [];
      return [...failed, { type: 'stream:end', agentId, streamId, canceled: status.state === 'canceled' }];
    }
    default:
      notice.kind satisfies
        | 'internal:iteration-start'
        | 'internal:iteration-complete'
        | 'internal:llm-call'
        | 'internal:llm-response'
        | 'internal:llm-attempt-discarded'
        | 'internal:request-fitted'
        | 'internal:llm-warning'
        | 'internal:reasoning-delta'
        | 'internal:tool-call-delta'
        | 'internal:tool-progress'
        | 'internal:checkpoint'
        | 'internal:paused'
        | 'internal:resumed'
        | 'internal:sub-agent'
        | 'internal:extension-error'
        | 'agent:state'
        | `internal:x.${string}`;
      return [];
  }
}

export function isTeamEvent<E extends TeamEvent['type'], X extends Tool>(
  event: TeamEvent<X>,
  type: E,
): event is Extract<TeamEvent<X>, { readonly type: E }>;
export function isTeamEvent(event: TeamEvent, type: string): boolean {
  return event.type === type;
}

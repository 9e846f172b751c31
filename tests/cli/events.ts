import type { AgentEvent, ArtifactUpdateEvent, StatusUpdateEvent, SubAgentEvent } from 'millrace';
import type { ToolCompleteEvent } from 'millrace/types';

type OwnEvent = SubAgentEvent['event'];

const base = { taskId: 't1', contextId: 'c1', agentId: 'a', timestamp: '2026-01-01T00:00:00.000Z' };

export function taskEvent(): OwnEvent {
  const status = { state: 'submitted', timestamp: base.timestamp } as const;
  return { ...base, kind: 'task', id: 't1', status };
}

export function textEvent(
  text: string,
  more: Partial<ArtifactUpdateEvent> & { readonly iteration?: number } = {},
): OwnEvent {
  const { iteration = 1, ...rest } = more;
  const artifact = { artifactId: `answer-${iteration}`, parts: [{ kind: 'text', text }] } as const;
  return { ...base, kind: 'artifact-update', artifact, append: true, lastChunk: false, ...rest };
}

export function llmCall(iteration = 1): OwnEvent {
  return { ...base, kind: 'internal:llm-call', iteration, attempt: 1, options: { tools: [] } };
}

export function attemptDiscarded(reason: string): OwnEvent {
  return { ...base, kind: 'internal:llm-attempt-discarded', iteration: 1, attempt: 1, reason };
}

export function toolCallDelta(): OwnEvent {
  return { ...base, kind: 'internal:tool-call-delta', iteration: 1, callId: '1:0', index: 0, arguments: '{' };
}

export function llmResponse(totalTokens: number, iteration = 1, text = ''): OwnEvent {
  const usage = { promptTokens: totalTokens, completionTokens: 0, totalTokens };
  return { ...base, kind: 'internal:llm-response', iteration, text, finishReason: 'stop', usage, durationMs: 0 };
}

export function iterationStart(iteration = 1): OwnEvent {
  return { ...base, kind: 'internal:iteration-start', iteration };
}

export function toolStart(callId: string, toolName: string, args: unknown, attempt = 1): OwnEvent {
  return { ...base, kind: 'internal:tool-start', iteration: 1, callId, toolName, arguments: args, attempt };
}

export function resumed(): OwnEvent {
  return { ...base, kind: 'internal:resumed' };
}

export function asked(...callIds: readonly string[]): OwnEvent {
  const questions = callIds.map((callId) => ({
    id: callId,
    callId,
    kind: 'input' as const,
    toolName: 'book',
    prompt: 'Aisle?',
  }));
  const status = { state: 'input-required', timestamp: base.timestamp } as const;
  return { ...base, kind: 'status-update', status, final: false, questions };
}

export function toolProgress(callId: string, toolName: string, update: unknown): OwnEvent {
  return { ...base, kind: 'internal:tool-progress', iteration: 1, callId, toolName, update };
}

export function toolComplete(
  callId: string,
  toolName: string,
  more: Partial<Pick<ToolCompleteEvent, 'arguments' | 'content' | 'success' | 'error' | 'durationMs'>> = {},
): OwnEvent {
  const rest = { arguments: {}, content: 'ok', success: true, durationMs: 3, ...more };
  return { ...base, kind: 'internal:tool-complete', iteration: 1, callId, toolName, ...rest };
}

export function finalStatus(
  state: StatusUpdateEvent['status']['state'],
  more: Partial<StatusUpdateEvent> = {},
): OwnEvent {
  const status = { state, timestamp: base.timestamp };
  return { ...base, kind: 'status-update', status, final: true, ...more };
}

/** An event of a child turn; the agents on the way are told as `bo`, or `bo/cy`, each the first call of the one above. */
export function below(path: string, event: OwnEvent, cursor?: string): AgentEvent {
  const steps: SubAgentEvent['path'][number][] = [];
  for (const agentId of path.split('/')) {
    steps.push({ agentId, taskId: `${steps.at(-1)?.taskId ?? 't1'}:1:0`, callId: '1:0' });
  }
  const { agentId, taskId } = steps.at(-1) ?? { agentId: '', taskId: '' };
  const own = { ...event, taskId, ...(cursor !== undefined && { cursor }) };
  return { ...base, kind: 'internal:sub-agent', agentId, path: steps, event: own };
}

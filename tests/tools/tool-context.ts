import { ROOT_CONTEXT } from '@opentelemetry/api';
import type { ToolCall, ToolContext, ToolListContext } from 'millrace';

export function toolCall(name: string, args: unknown = {}): ToolCall {
  return {
    id: 'call_1',
    type: 'function',
    function: { name, arguments: typeof args === 'string' ? args : JSON.stringify(args) },
  };
}

/** A context as the engine gives one, for a call whose arguments are not checked yet unless `changes` holds them. */
export function toolContext(changes: Partial<ToolContext> = {}): ToolContext {
  return {
    ...listContext,
    iteration: 1,
    context: undefined,
    messages: [],
    callId: '1:0',
    call: toolCall('any'),
    arguments: undefined,
    idempotencyKey: 'task:1:0',
    attempt: 1,
    signal: new AbortController().signal,
    traceContext: ROOT_CONTEXT,
    ask: () => {
      throw new Error('nobody answers here');
    },
    progress: () => {},
    noteUsage: () => {},
    ...changes,
  };
}

export const listContext: ToolListContext = {
  taskId: 'task',
  agentId: 'agent',
  contextId: 'context',
  metadata: {},
  authContext: undefined,
};

import { type Context, ROOT_CONTEXT } from '@opentelemetry/api';
import type { LLMProviderInfo, LLMResponse, ToolCall, Usage } from 'millrace';
import {
  cancelSpan,
  failSpan,
  finishExecuteSpan,
  finishLlmSpan,
  finishToolSpan,
  startExecuteSpan,
  startLlmSpan,
  startLoopIterationSpan,
  startToolSpan,
  startToolsSpan,
  type TurnIds,
  type TurnTracing,
} from 'millrace/internals';

export const ids: TurnIds = { taskId: 'task-1', contextId: 'context-1', agentId: 'agent-1' };

export const info: LLMProviderInfo = {
  providerName: 'openai',
  model: 'gpt-test',
  serverAddress: '127.0.0.1',
  serverPort: 4000,
};

export const usage: Usage = { promptTokens: 12, completionTokens: 3, totalTokens: 15 };

export const answer: LLMResponse = {
  message: { role: 'assistant', content: 'It rains.' },
  finishReason: 'stop',
  usage,
};

export function toolCall(name: string, id = `call-${name}`): ToolCall {
  return { id, type: 'function', function: { name, arguments: '{}' } };
}

/** How the last model call of the turn goes. */
export type Ending = 'completed' | 'canceled' | Error;

/**
 * The spans of a turn of two iterations with two tools, the second of which fails, made as the core makes them: without a
 * loop, a model or a tool. Every span is ended.
 */
export function writeTurnSpans(tracing: TurnTracing, ending: Ending, parent: Context = ROOT_CONTEXT): void {
  const execute = startExecuteSpan(tracing, { maxIterations: 10, resumed: false }, parent);
  const first = startLoopIterationSpan(tracing, 1, execute.traceContext);
  const call = startLlmSpan(tracing, { iteration: 1, params: { messages: [] }, info }, first.traceContext);
  finishLlmSpan(tracing, call.span, { response: answer });
  call.span.end();
  const batch = startToolsSpan(tracing, first.traceContext);
  const tools = ['weather', 'calculate'].map((name, index) => {
    const input = { callId: `1:${index}`, call: toolCall(name), intent: { attempt: 1, arguments: {} } };
    return startToolSpan(tracing, input, batch.traceContext).span;
  });
  const error = { code: 'TOOL_FAILED', message: 'no such unit' };
  tools.forEach((span, index) => {
    const failed = index === 1 ? { error, success: false } : { success: true };
    finishToolSpan(tracing, span, { content: 'done', ...failed });
    span.end();
  });
  batch.span.end();
  first.span.end();
  const second = startLoopIterationSpan(tracing, 2, execute.traceContext);
  const last = startLlmSpan(tracing, { iteration: 2, params: { messages: [] }, info }, second.traceContext);
  for (const { span } of [last, second, execute]) {
    if (ending === 'canceled') cancelSpan(span);
    else if (ending instanceof Error) failSpan(span, ending);
  }
  const outcome = ending instanceof Error ? 'failed' : ending;
  const result = { outcome, stopReason: 'stop', iterations: 2, toolCalls: 2, usage };
  finishExecuteSpan(tracing, execute.span, result);
  for (const { span } of [last, second, execute]) span.end();
}

export const turnOutline = [
  'agent.execute',
  '  iteration[1]',
  '    llm.call',
  '    tools.execute',
  '      tool[weather]',
  '      tool[calculate]',
  '  iteration[2]',
  '    llm.call',
].join('\n');

import type { CallToolRequest, CallToolResult, Client, RequestOptions } from '@modelcontextprotocol/client';
import { AgentLoopError, systemClock } from '../core/contracts/index.ts';
import { pause } from '../core/streams/index.ts';
import type { ClientSdk } from './load-sdk.ts';

interface TaskCallOptions {
  readonly schemas: ClientSdk['specTypeSchemas'];
  readonly request: RequestOptions & { readonly signal: AbortSignal };
}

const defaultPollMs = 1_000;

/**
 * Calls a tool as a task (MCP 2025-11-25): creates it, asks for its state, and reads its result once it has ended or its server has questions,
 * which come on the stream of that request. Aborting the signal cancels the task.
 */
export async function callAsTask(
  client: Client,
  params: CallToolRequest['params'],
  { schemas, request: options }: TaskCallOptions,
): Promise<CallToolResult> {
  const { CreateTaskResult, GetTaskResult, CancelTaskResult, CallToolResult: Result } = schemas;
  const { signal } = options;
  const created = await client.request({ method: 'tools/call', params: { ...params, task: {} } }, CreateTaskResult, {
    ...options,
  });
  const { taskId } = created.task;
  const cancel = () => {
    client.request({ method: 'tasks/cancel', params: { taskId } }, CancelTaskResult).catch(() => {});
  };
  if (signal.aborted) cancel();
  signal.addEventListener('abort', cancel, { once: true });
  for (let task = created.task; ; ) {
    task = await client.request({ method: 'tasks/get', params: { taskId } }, GetTaskResult, options);
    if (task.status === 'cancelled') throw new AgentLoopError('TOOL_FAILED', 'cancelled the task');
    if (task.status !== 'working')
      return client.request({ method: 'tasks/result', params: { taskId } }, Result, options);
    // Where the signal is aborted the next request rejects.
    await pause(task.pollInterval ?? defaultPollMs, systemClock, signal);
  }
}

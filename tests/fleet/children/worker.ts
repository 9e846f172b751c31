// A worker of a fleet in a process of its own. Each model call and each tool run adds a line to a list in Redis, so that the parent can count
// them. SIGTERM drains; the parent kills others.
// Arguments: URL of Redis, name of the queue, options as JSON.
import { appendFileSync } from 'node:fs';
import { agent, agentTools, tool } from 'millrace';
import { turnQueue, worker } from 'millrace/fleet';
import { RedisStateStore } from 'millrace/redis';
import type { LLMCallParams, LLMResponse } from 'millrace/types';

export interface ChildOptions {
  /** Where lines go. */
  readonly log: string;
  /** Model calls before the answer, each but the last with two tool calls. */
  readonly rounds: number;
  readonly modelMs: number;
  readonly toolMs: number;
  /** Tools do not look at their signal. */
  readonly deaf?: boolean;
  /** Blocks the event loop once, in the first tool. */
  readonly blockMs?: number;
  readonly tenantMost?: number;
  /** The agent `boss` calls it as its tool. */
  readonly asTool?: boolean;
  readonly worker: object;
  readonly limits?: object;
}

const [redis = '', name = '', json = '{}'] = process.argv.slice(2);
const options: ChildOptions = JSON.parse(json);
const note = (line: string) => appendFileSync(options.log, `${line}\n`);
let blocked = options.blockMs === undefined;

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

async function answer({ messages, signal }: LLMCallParams): Promise<LLMResponse> {
  signal?.addEventListener('abort', () => note(`left ${process.pid}`), { once: true });
  await pause(options.modelMs, signal);
  const round = messages.filter(({ role }) => role === 'assistant').length + 1;
  if (round >= options.rounds) return { message: { role: 'assistant', content: 'Done.' }, finishReason: 'stop' };
  const toolCalls = ['work', 'risk'].map((tool) => ({
    id: `${tool}-${round}`,
    type: 'function' as const,
    function: { name: tool, arguments: '{}' },
  }));
  return { message: { role: 'assistant', content: null, toolCalls }, finishReason: 'tool_calls' };
}

const toolOf = (toolName: string, onInDoubt: 'retry' | 'fail') =>
  tool({
    name: toolName,
    description: 'Works.',
    parameters: { type: 'object', properties: {} },
    idempotent: onInDoubt === 'retry',
    onInDoubt,
    async execute(_, { taskId, callId, signal }) {
      note(`tool ${toolName} ${taskId} ${callId} ${process.pid} ${Date.now()}`);
      if (!blocked) {
        blocked = true;
        const until = Date.now() + (options.blockMs ?? 0);
        while (Date.now() < until);
      }
      await pause(options.toolMs, options.deaf ? undefined : signal);
      note(`done ${toolName} ${taskId} ${callId} ${process.pid} ${Date.now()}`);
      return 'worked';
    },
  });

const store = new RedisStateStore({ redis, prefix: name });
const queue = turnQueue({ connection: redis, store, name, ...(options.limits && { limits: options.limits }) });
const ada = agent({
  id: 'ada',
  description: 'Works.',
  provider: { call: answer },
  tools: [toolOf('work', 'retry'), toolOf('risk', 'fail')],
  enableTracing: false,
});
const boss = agent({
  id: 'boss',
  provider: {
    async call({ messages, tools = [] }) {
      if (messages.at(-1)?.role === 'tool')
        return { message: { role: 'assistant', content: 'Done.' }, finishReason: 'stop' };
      const call = { name: tools[0]?.function.name ?? '', arguments: '{"message":"work"}' };
      const toolCalls = [{ id: 'c', type: 'function', function: call }] as const;
      return { message: { role: 'assistant', content: null, toolCalls }, finishReason: 'tool_calls' };
    },
  },
  toolProviders: [agentTools([ada])],
  enableTracing: false,
});
const { tenantMost } = options;
const working = worker({
  queue,
  agents: options.asTool ? [boss] : [ada],
  ...(tenantMost !== undefined && { tenantConcurrency: () => tenantMost }),
  ...options.worker,
});
process.once('SIGTERM', () => {
  void working.drain();
});
const over = working.run();
process.send?.('running');
await over;
await queue.close();
await store.close();
process.exit(0);

// Runs a turn of a team, or resumes it, with tracing, in a process of its own. It stops at the place that its fourth argument names, says so, and
// is killed there: `tool` in a tool of the first agent, `deep` in the last model call of a sub-agent of its sub-agent, `child` in that of the sub-agent, `other` in that of
// the agent that the turn is handed to, when the sub-agents have ended, and a child turn of a hook. Without a place it ends the turn, shuts tracing down, and says how many spans were exported.
import { context, trace } from '@opentelemetry/api';
import {
  agent,
  agentTools,
  branch,
  type Extension,
  type LLMProvider,
  type Message,
  type ToolCall,
  team,
  tool,
} from 'millrace';
import { LmdbMessageStore, LmdbStateStore } from 'millrace/lmdb';
import { startTracing } from 'millrace/otel';

const [path = '', endpoint = '', verb = 'start', stop = 'nowhere'] = process.argv.slice(2);
process.env['OTEL_BSP_SCHEDULE_DELAY'] = '10';
const tracing = verb === 'untraced' ? undefined : startTracing({ endpoint, shutdownTimeoutMs: 5_000 });

/** Says that the place is reached; where the process shall stop there, nothing follows. */
const reach = (place: string): Promise<void> | undefined => {
  if (place !== stop) return undefined;
  process.send?.(place);
  return new Promise(() => {});
};

/** The tool whose result is the last message. */
function calledLast(messages: readonly Message[]): string | undefined {
  if (messages.at(-1)?.role !== 'tool') return undefined;
  const calls = messages.flatMap((message) => (message.role === 'assistant' ? (message.toolCalls ?? []) : []));
  return calls.at(-1)?.function.name;
}

type Step = string | { readonly call: string; readonly args?: object };

/** Answers by the history, so that each process gets the same. */
const model = (place: string, next: (called: string | undefined) => Step): LLMProvider => ({
  info: { providerName: 'test', model: 'by-heart' },
  async call({ messages }) {
    const step = next(calledLast(messages));
    if (typeof step === 'string') await reach(place);
    const usage = { promptTokens: 10, completionTokens: 2, totalTokens: 12 };
    if (typeof step === 'string') return { message: { role: 'assistant', content: step }, usage };
    const call: ToolCall = {
      id: `${step.call}-${messages.length}`,
      type: 'function',
      function: { name: step.call, arguments: JSON.stringify(step.args ?? {}) },
    };
    return { message: { role: 'assistant', content: null, toolCalls: [call] }, usage };
  },
});
const plain = (name: string, execute: () => Promise<string>) =>
  tool({ name, description: name, parameters: { type: 'object' }, idempotent: true, onInDoubt: 'retry', execute });

const look = plain('look', async () => 'seen');
const slow = plain('slow', async () => {
  // What an instrumentation of `fetch` would do, for a request that has ended while its tool runs.
  const request = trace.getTracer('fetch').startSpan('GET', {}, context.active());
  request.end();
  await reach('tool');
  return 'done';
});
const digger = agent({
  id: 'digger',
  description: 'Digs.',
  provider: model('deep', (called) => (called ? 'Dug.' : { call: 'look' })),
  tools: [look],
});
const helper = agent({
  id: 'helper',
  description: 'Helps.',
  provider: model('child', (called) => (called ? 'Helped.' : { call: 'digger', args: { message: 'Dig.' } })),
  toolProviders: [agentTools([digger])],
});
const checker = agent({ id: 'checker', description: 'Checks.', provider: model('check', () => 'Checked.') });
/** Runs a child turn from a hook, behind the iteration of the sub-agent. */
const checks: Extension = {
  name: 'checks',
  async afterIteration(step) {
    if (step.iteration !== 3) return;
    await branch(step, { agent: checker, messages: [{ role: 'user', content: 'Check.' }], name: 'check' });
  },
};
const common = { leaseMs: 400 };
const steps: Readonly<Record<string, Step>> = {
  look: { call: 'slow' },
  slow: { call: 'helper', args: { message: 'Help.' } },
  helper: { call: 'hand_off', args: { agentId: 'closer', note: 'Close it.' } },
};
const opener = agent({
  id: 'opener',
  description: 'Opens.',
  provider: model('nowhere', (called = '') => steps[called] ?? { call: 'look' }),
  tools: [look, slow],
  toolProviders: [agentTools([helper])],
  extensions: [checks],
});
const closer = agent({
  id: 'closer',
  description: 'Closes.',
  provider: model('other', (called) => (called ? 'Closed.' : { call: 'look' })),
  tools: [look],
});
const desk = team({
  ...common,
  agents: [opener, closer],
  handOff: true,
  contextId: 'c',
  taskStateStore: new LmdbStateStore({ path: `${path}/journal` }),
  messageStore: new LmdbMessageStore({ path: `${path}/messages` }),
});

if (verb === 'cancel') {
  // The lease of the process that was killed is not over yet, and this one is told so.
  await desk.cancel('t');
  const report = await tracing?.shutdown();
  process.send?.({ report });
  process.exit();
}
const turn =
  verb === 'start' ? await desk.startTurn('Do it.', { taskId: 't' }) : await desk.resume('t', { onBusy: 'wait' });
const { text } = await turn.result();
await turn.settled;
const report = await tracing?.shutdown();
process.send?.({ text, report });
process.disconnect?.();

import { setTimeout as sleep } from 'node:timers/promises';
import { AgentLoop, AgentLoopError, InMemoryStateStore, LocalToolProvider, tool } from 'millrace';
import { scriptedLLM } from 'millrace/testing';

const ran: string[] = [];
const step = tool({
  name: 'step',
  description: 'Does one step of a long job.',
  parameters: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
  async execute({ name }) {
    await sleep(100);
    ran.push(name);
    return `${name} is done`;
  },
});

const parts = {
  agentId: 'worker',
  toolProviders: [new LocalToolProvider([step])],
  toolConcurrency: 1,
  taskStateStore: new InMemoryStateStore(),
};
const job = { toolCalls: ['dig', 'pour', 'build'].map((name) => ({ name: 'step', arguments: { name } })) };

// One signal for all turns of the process. In a service: process.once('SIGTERM', () => stopping.abort()).
const stopping = new AbortController();
const first = new AgentLoop({ ...parts, llmProvider: scriptedLLM([job]), shutdown: stopping.signal });
const turn = first.startTurn([{ role: 'user', content: 'Build a house.' }], { taskId: 'house' });
turn.subscribe({
  next(event) {
    if (event.kind === 'internal:tool-start') stopping.abort();
    if (event.kind === 'internal:tool-complete') console.log('old process:', event.content);
  },
  error: (error: unknown) => console.log('old process:', AgentLoopError.isInstance(error) ? error.code : error),
});
await turn.settled.catch(() => {});

// The lease was released: another process resumes at once, and repeats nothing.
const llmProvider = scriptedLLM([{ text: 'The house stands.' }]);
const { text } = await AgentLoop.resume('house', { ...parts, llmProvider }).result();
console.log('new process:', text);
console.log('each step once:', ran.join(', '));

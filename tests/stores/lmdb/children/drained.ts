// Runs a turn that is in its second model call, which never answers, until SIGTERM; then leaves it to others, and says how it was lost.

import { AgentLoopError } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';
import { scriptedLLM } from 'millrace/testing';
import { batch, batchTools } from '../batch-tools.ts';

const [path = '', worldPath = '', taskId = ''] = process.argv.slice(2);
const store = new LmdbStateStore({ path });
const stopping = new AbortController();
process.once('SIGTERM', () => stopping.abort());
const loop = new AgentLoop({
  agentId: 'worker',
  llmProvider: scriptedLLM([batch, { gate: new Promise(() => {}), text: 'Never said.' }]),
  toolProviders: [batchTools(worldPath, { hangs: false })],
  taskStateStore: store,
  leaseMs: 60_000,
  enableTracing: false,
  shutdown: stopping.signal,
});
const turn = loop.startTurn([{ role: 'user', content: 'Do it all.' }], { taskId });
turn.subscribe({
  next(event) {
    if (event.kind === 'internal:llm-call' && event.iteration === 2) process.send?.('calling');
  },
  error: (error: unknown) => process.send?.(AgentLoopError.isInstance(error) ? error.code : String(error)),
});
await turn.settled.catch(() => {});
await store.close();
process.disconnect();

// Runs a turn whose model calls four tools at once; two of them never return. Says when the others have their results in the journal.
import { AgentLoop } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';
import { scriptedLLM } from 'millrace/testing';
import { batch, batchTools } from '../batch-tools.ts';

const [path = '', worldPath = '', taskId = ''] = process.argv.slice(2);
const store = new LmdbStateStore({ path });
const loop = new AgentLoop({
  agentId: 'worker',
  llmProvider: scriptedLLM([batch]),
  toolProviders: [batchTools(worldPath, { hangs: true })],
  taskStateStore: store,
  leaseMs: 100,
  enableTracing: false,
});
const finished = new Set<string>();
loop.startTurn([{ role: 'user', content: 'Do all four.' }], { taskId }).subscribe((event) => {
  if (event.kind !== 'internal:tool-complete') return;
  finished.add(event.callId);
  if (finished.size === 2) process.send?.('between');
});

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentLoop, type AgentLoopConfig, LocalToolProvider, tool } from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';
import { scriptedLLM } from 'millrace/testing';

// This file is two programs: a worker that is killed in the middle of a turn, and one that resumes it.
const [folder = mkdtempSync(join(tmpdir(), 'millrace-durable-')), isWorker] = process.argv.slice(2);
const ledger = join(folder, 'ledger');
const store = new LmdbStateStore({ path: join(folder, 'journal') });

const parameters = { type: 'object', properties: {} } as const;
/** A step that takes no time, or one in the middle of which the worker is killed. */
const deed = (name: string, isSlow: boolean) => ({
  name,
  description: `Does the ${name} step.`,
  parameters,
  async execute(_: unknown, { idempotencyKey, attempt }: { idempotencyKey: string; attempt: number }) {
    appendFileSync(ledger, `${name} ${idempotencyKey} attempt ${attempt}\n`);
    if (isSlow && isWorker) await sleep(60_000);
    return `${name}: done`;
  },
});
const tools = new LocalToolProvider([
  tool(deed('reserve', false)),
  // Safe to repeat: the other system deduplicates by the idempotency key.
  tool({ ...deed('charge', true), idempotent: true, onInDoubt: 'retry' }),
  // Not safe to repeat: the model receives OUTCOME_UNKNOWN.
  tool(deed('notify', true)),
]);
const config = (llmProvider: AgentLoopConfig['llmProvider']): AgentLoopConfig => ({
  agentId: 'shop',
  llmProvider,
  toolProviders: [tools],
  taskStateStore: store,
  leaseMs: 500,
});

if (isWorker) {
  const asksForAll = { toolCalls: ['reserve', 'charge', 'notify'].map((name) => ({ name })) };
  const turn = new AgentLoop(config(scriptedLLM([asksForAll]))).startTurn([{ role: 'user', content: 'Sell it.' }], {
    taskId: 'sale',
  });
  turn.subscribe((event) => event.kind === 'internal:tool-complete' && process.send?.(event.toolName));
} else {
  const worker = fork(import.meta.filename, [folder, 'worker']);
  const [finished] = await once(worker, 'message');
  worker.kill('SIGKILL');
  await once(worker, 'exit');
  console.log(`killed when "${finished}" had its result and the others ran`);

  // The lease of the dead process expires. A process that shuts down properly releases it at once.
  while (store.list().some(({ held }) => held)) await sleep(20);

  const turn = AgentLoop.resume('sale', config(scriptedLLM([{ text: 'Sold; please check that the mail went out.' }])));
  const { text, messages } = await turn.result();
  for (const message of messages) if (message.role === 'tool') console.log('result', message.content);
  console.log(text);
  console.log(`\nwhat really ran:\n${readFileSync(ledger, 'utf8')}`);
  await store.close();
  rmSync(folder, { recursive: true });
}

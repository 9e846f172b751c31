import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentLoop, LocalToolProvider, tool } from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';
import { scriptedLLM } from 'millrace/testing';

// This file is two programs: a worker that runs a turn, and one that watches it and answers what it asks.
const [folder = mkdtempSync(join(tmpdir(), 'millrace-watch-')), isWorker] = process.argv.slice(2);
const store = new LmdbStateStore({ path: folder });
const parameters = { type: 'object', properties: {} } as const;

const booked = new AbortController();
const book = tool({
  name: 'book_flight',
  description: 'Books a flight.',
  parameters,
  execute(_, { ask }) {
    const seat = ask({ prompt: 'Window or aisle?' });
    booked.abort();
    return `booked: ${seat}`;
  },
});
const pack = tool({
  name: 'pack',
  description: 'Packs until the seat is booked, so that the turn need not be suspended for the question beside it.',
  parameters,
  async execute(_, { progress, signal }) {
    for (let shirt = 1; !booked.signal.aborted; shirt++) {
      progress(`shirt ${shirt}`);
      await sleep(50, undefined, { signal });
    }
    return 'packed';
  },
});

if (isWorker) {
  const llmProvider = scriptedLLM([
    { text: 'I see to it.', toolCalls: [{ name: 'book_flight' }, { name: 'pack' }] },
    { text: ['Your seat ', 'is at ', 'the window.'] },
  ]);
  const toolProviders = [new LocalToolProvider([book, pack])];
  const loop = new AgentLoop({ agentId: 'travel', llmProvider, toolProviders, taskStateStore: store });
  const turn = loop.startTurn([{ role: 'user', content: 'Off to Oslo!' }], { taskId: 'trip' });
  turn.subscribe((event) => event.kind === 'task' && process.send?.('started'));
  await turn.settled;
  await store.close();
  process.disconnect();
} else {
  const worker = fork(import.meta.filename, [folder, 'worker']);
  const gone = once(worker, 'exit');
  await once(worker, 'message');

  // Any process may watch. To reconnect, pass `from`, the cursor of the last event that it has.
  const questions: string[] = [];
  const answered: Promise<void>[] = [];
  await AgentLoop.observe('trip', { store }).forEach((event) => {
    if (event.kind === 'artifact-update') {
      for (const part of event.artifact.parts) if (part.kind === 'text') process.stdout.write(part.text);
      if (event.lastChunk) console.log();
    }
    if (event.kind === 'internal:tool-progress') {
      console.log('worker packs', event.update);
      // It answers while the worker packs.
      for (const id of questions.splice(0))
        answered.push(AgentLoop.answer('trip', { store, answers: { [id]: 'window' } }));
    }
    if (event.kind === 'internal:tool-complete') console.log('worker:', event.content);
    if (event.kind !== 'status-update') return;
    for (const { id, prompt } of event.questions ?? []) {
      console.log('asked:', prompt);
      questions.push(id);
    }
    if (event.final) console.log('turn:', event.status.state);
  });
  await Promise.all(answered);
  await gone;
  await store.close();
  rmSync(folder, { recursive: true });
}

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { InMemoryStateStore, snapshotStateStore, type TaskStateStore } from 'millrace';
import { AgentLoop, refuses } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';
import { scriptedLLM } from 'millrace/testing';
import { PlainMap } from './snapshot/plain-map.ts';

const question = [{ role: 'user', content: 'Well?' }] as const;

interface OpenStore {
  readonly store: TaskStateStore;
  readonly close: () => Promise<void>;
}

function lmdb(): OpenStore {
  const path = mkdtempSync(join(tmpdir(), 'millrace-kept-'));
  const store = new LmdbStateStore({ path });
  const close = async () => {
    await store.close();
    rmSync(path, { recursive: true });
  };
  return { store, close };
}

const close = async () => {};
const stores: readonly (readonly [string, () => OpenStore])[] = [
  ['InMemoryStateStore', () => ({ store: new InMemoryStateStore(), close })],
  ['LmdbStateStore', lmdb],
  ['snapshotStateStore', () => ({ store: snapshotStateStore(new PlainMap()), close })],
];

/** One turn of each ending, by what its state is then. */
async function endAll(store: TaskStateStore): Promise<void> {
  const llmProvider = scriptedLLM([{ text: 'So.' }, { error: new Error('cut') }]);
  const loop = new AgentLoop({ agentId: 'a', llmProvider, taskStateStore: store });
  await loop.startTurn(question, { taskId: 'completed', detached: true }).settled;
  await loop.startTurn(question, { taskId: 'failed', detached: true }).settled;
  const canceled = loop.startTurn(question, { taskId: 'canceled' });
  canceled.subscribe((event) => event.kind === 'task' && void canceled.cancel('no'));
  await canceled.settled;
}

describe.each(stores)('S1-75 %s', (_, open) => {
  it('S1-75 keeps a turn behind its end, however it ended, until delete', async () => {
    const { store, close } = open();
    try {
      await endAll(store);
      for (const taskId of ['completed', 'failed', 'canceled']) {
        expect(await store.load(taskId)).toMatchObject({ status: taskId, isComplete: true });
        const replay = AgentLoop.resume(taskId, { agentId: 'a', llmProvider: scriptedLLM([]), taskStateStore: store });
        const statuses: string[] = [];
        replay.subscribe((event) => event.kind === 'status-update' && statuses.push(event.status.state));
        await replay.settled;
        expect(statuses.at(-1)).toBe(taskId);
        await store.delete(taskId);
        expect(await store.load(taskId)).toBeNull();
        await refuses('NOT_FOUND', () => store.read(taskId));
      }
    } finally {
      await close();
    }
  });
});

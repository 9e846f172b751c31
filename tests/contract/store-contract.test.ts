import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it } from '@jest/globals';
import { InMemoryStateStore, type TaskStateStore } from 'millrace';
import type { InMemoryStateStoreOptions } from 'millrace/internals';
import { type StoreContractHarness, storeContract } from 'millrace/testing';
import { testLimitMs } from '../eventually.ts';
import { brokenIndexes } from './broken/broken-indexes.ts';
import { brokenJournals } from './broken/broken-journals.ts';
import { brokenLeases } from './broken/broken-leases.ts';
import { brokenReaders, stopLeaks } from './broken/broken-readers.ts';
import { runContract } from './run-contract.ts';

const run = promisify(execFile);

const unknownRecordCase = 'a record of an unknown type in the journal is refused by read and load';
const overtakenCase = 'an owner that was overtaken is FENCED and writes nothing';

const memory: StoreContractHarness = {
  name: 'memory',
  createStore: (options: InMemoryStateStoreOptions): TaskStateStore => new InMemoryStateStore(options),
  deadlineMs: testLimitMs,
};

describe('storeContract', () => {
  afterEach(stopLeaks);

  it('S1-102 passes on InMemoryStateStore, every case and without a deviation', async () => {
    const { passed, failed } = await runContract(memory);
    expect([...failed]).toEqual([]);
    expect(passed.length).toBeGreaterThan(75);
  });

  it('H-46 repeats a case with longer leases where the machine is too slow for short ones on a real clock', async () => {
    const { failed } = await runContract({
      name: 'slow',
      createStore: () => new InMemoryStateStore(),
      advance: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
      leaseMs: 1,
      deadlineMs: testLimitMs,
    });
    expect([...failed]).toEqual([]);
  });

  it('has one title for each case', async () => {
    const { passed } = await runContract(memory);
    expect(new Set(passed).size).toBe(passed.length);
  });

  it.each([...brokenLeases, ...brokenJournals, ...brokenReaders, ...brokenIndexes])(
    'notices a store with this bug: $bug',
    async ({ create, noticedBy }) => {
      const { failed } = await runContract({ name: 'broken', createStore: create, deadlineMs: 30 });
      expect([...failed.keys()]).toContain(noticedBy);
    },
  );

  it('has a known deviation fail where the store keeps the promise after all', async () => {
    const { failed } = await runContract({ ...memory, deviations: { [overtakenCase]: 'no fence yet' } });
    expect([...failed.keys()]).toEqual([`${overtakenCase} (known deviation: no fence yet)`]);
  });

  it('has a known deviation pass where the store breaks the promise', async () => {
    const noFence = brokenLeases.find(({ bug }) => bug === 'no fence');
    if (noFence === undefined) throw new Error('The list of broken stores has none without a fence.');
    const { passed, failed } = await runContract({
      name: 'deviating',
      createStore: noFence.create,
      deadlineMs: 30,
      deviations: { [overtakenCase]: 'no fence yet' },
    });
    expect(passed).toContain(`${overtakenCase} (known deviation: no fence yet)`);
    expect([...failed.keys()]).not.toContain(overtakenCase);
  });

  it('refuses a deviation that names no case', () => {
    const define = (): void => storeContract({ ...memory, deviations: { 'no such case': 'why' } }, { describe, it });
    expect(define).toThrow('No case of the contract of TaskStateStore is called "no such case".');
  });

  it('examines the reading of unknown records only where the harness can plant one', async () => {
    const without = await runContract(memory);
    expect(without.passed).not.toContain(unknownRecordCase);
    const planted: string[] = [];
    const { failed } = await runContract({ ...memory, plantUnknownRecord: (_, taskId) => void planted.push(taskId) });
    expect(planted).toHaveLength(2);
    expect([...failed.keys()]).toEqual([unknownRecordCase]);
  });

  it('disposes of every store and peer that it opened, the peer first', async () => {
    const open: TaskStateStore[] = [];
    const peers = new Map<TaskStateStore, TaskStateStore>();
    let opened = 0;
    const { failed } = await runContract({
      ...memory,
      createStore: (options) => {
        const store = new InMemoryStateStore(options);
        opened++;
        open.push(store);
        return store;
      },
      createPeer: (store) => {
        const peer: TaskStateStore = new Proxy(store, {
          get: (target, name) => {
            const member: unknown = Reflect.get(target, name);
            return typeof member === 'function' ? member.bind(target) : member;
          },
        });
        peers.set(peer, store);
        open.push(peer);
        return peer;
      },
      dispose: (store) => {
        expect(open.pop()).toBe(store);
      },
    });
    expect([...failed]).toEqual([]);
    expect(open).toEqual([]);
    // A case may open another peer.
    expect(peers.size).toBeGreaterThanOrEqual(opened);
  });

  it('lets a store with its own clock wait in its own way', async () => {
    let now = 0;
    const waits: number[] = [];
    const { failed } = await runContract({
      ...memory,
      createStore: () => new InMemoryStateStore({ clock: { now: () => now, schedule: () => () => undefined } }),
      leaseMs: 40,
      advance: (ms) => {
        waits.push(ms);
        now += ms;
      },
    });
    expect([...failed]).toEqual([]);
    expect(Math.max(...waits)).toBe(80);
  });

  it('runs on node:test, outside of jest', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'millrace-contract-'));
    try {
      const bundle = join(folder, 'contract.mjs');
      const entry = 'tests/contract/on-node-test.ts';
      await run('node_modules/esbuild/bin/esbuild', [
        entry,
        '--bundle',
        '--platform=node',
        '--format=esm',
        `--outfile=${bundle}`,
      ]);
      const { stdout } = await run(process.execPath, ['--test', '--test-reporter=tap', bundle]);
      const { passed } = await runContract(memory);
      expect(stdout).toContain(`# pass ${passed.length}\n# fail 0\n`);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

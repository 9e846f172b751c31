import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { AgentLoop, AgentLoopError, agent, InMemoryStateStore, type TaskStateStore, tool } from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';
import { type FakeClock, fakeClock, gate, scriptedLLM } from 'millrace/testing';
import { eventually } from '../eventually.ts';

/** Shorter than the store may take to answer. */
const leaseMs = 5_000;

interface Bench {
  readonly store: TaskStateStore;
  readonly clock: FakeClock;
}

const stores: Readonly<Record<string, (run: (bench: Bench) => Promise<void>) => Promise<void>>> = {
  async memory(run) {
    const clock = fakeClock();
    await run({ store: new InMemoryStateStore({ clock }), clock });
  },
  async LMDB(run) {
    const path = await mkdtemp(join(tmpdir(), 'millrace-'));
    const clock = fakeClock();
    const store = new LmdbStateStore({ path, clock });
    try {
      await run({ store, clock });
    } finally {
      await store.close();
      await rm(path, { recursive: true });
    }
  },
};

/** The next request for a lease is sent once the gate opens. */
function holdAcquire(store: TaskStateStore): ReturnType<typeof gate> {
  const held = gate();
  const acquire = store.acquire.bind(store);
  store.acquire = async (...asked) => {
    store.acquire = acquire;
    await held.pass();
    return acquire(...asked);
  };
  return held;
}

/** An agent of one process; `seen` has the `context` of each call of its tool. */
function made({ store, clock }: Bench, seen: unknown[] = []) {
  const look = tool<string>()({
    name: 'look',
    description: 'Looks.',
    parameters: { type: 'object' },
    execute: (_, { context }) => {
      seen.push(context);
      return 'seen';
    },
  });
  const provider = scriptedLLM([{ toolCalls: [{ name: 'look' }] }, { text: 'Done.' }]);
  return agent<string>()({ id: 'bo', provider, tools: [look], taskStateStore: store, clock, leaseMs });
}

/** Leaves what a process leaves that is killed between the creation of a turn and its lease. */
async function killedWhileOpening({ store, clock }: Bench): Promise<void> {
  const held = gate();
  const acquire = async () => {
    await held.pass();
    throw new AgentLoopError('UNAVAILABLE', 'Killed.');
  };
  const get = (_: TaskStateStore, name: keyof TaskStateStore) => {
    const member = name === 'acquire' ? acquire : store[name];
    return typeof member === 'function' ? member.bind(store) : member;
  };
  // A store of its own, as another process has.
  const turn = made({ store: new Proxy(store, { get }), clock }).startTurn('Hi.', { taskId: 't', detached: true });
  await held.reached;
  held.open();
  await turn.settled.catch(() => {});
}

const completed = (store: TaskStateStore) => eventually(async () => (await store.describe('t'))?.state === 'completed');

const resumes = async (store: TaskStateStore, taskId: string) =>
  (await store.read(taskId)).filter(({ type }) => type === 'turn.resumed').length;

describe.each(Object.entries(stores))('a turn between its creation and its lease, in %s', (_, withStore) => {
  it('R-04 is left to the call that creates it by every sweep of its process, however slow the store is', () =>
    withStore(async (bench) => {
      const { store, clock } = bench;
      const seen: unknown[] = [];
      const bo = made(bench, seen);
      const held = holdAcquire(store);
      const turn = bo.startTurn('Hi.', { taskId: 't', context: 'of ann', detached: true });
      await held.reached;
      const other = made(bench);
      for (const ms of [0, leaseMs / 2, leaseMs]) {
        clock.advance(ms);
        expect(await bo.recover()).toBe(0);
        expect(await other.recover()).toBe(0);
      }
      held.open();
      await turn.settled;
      expect(seen).toEqual(['of ann']);
      expect(await resumes(store, 't')).toBe(0);
    }));

  it('R-04 is left to the call that creates it by those who follow it with recover, however slow the store is', () =>
    withStore(async (bench) => {
      const { store, clock } = bench;
      const seen: unknown[] = [];
      const held = holdAcquire(store);
      const turn = made(bench, seen).startTurn('Hi.', { taskId: 't', context: 'of ann', detached: true });
      await held.reached;
      const following = made(bench, seen)
        .observe('t', { recover: { context: 'of eve' } })
        .subscribe();
      const until = clock.now() + 3 * leaseMs;
      while (clock.now() < until) {
        await clock.whenPending();
        clock.advanceToNext();
        await new Promise((resolve) => setImmediate(resolve));
      }
      held.open();
      await turn.settled;
      expect(seen).toEqual(['of ann']);
      following.unsubscribe();
    }));

  it('R-04 is resumed by no other process before a lease would have expired, and then by a sweep', () =>
    withStore(async (bench) => {
      const { store, clock } = bench;
      await killedWhileOpening(bench);
      const seen: unknown[] = [];
      const next = made(bench, seen);
      clock.advance(leaseMs - 1);
      expect(await next.recover()).toBe(0);
      clock.advance(1);
      expect(await next.recover()).toBe(1);
      await completed(store);
      expect(seen).toEqual([undefined]);
    }));

  it('R-04 is left alone for as long by those who follow it with recover', () =>
    withStore(async (bench) => {
      const { store, clock } = bench;
      await killedWhileOpening(bench);
      const asked: string[] = [];
      const acquire = store.acquire.bind(store);
      store.acquire = (...given) => {
        asked.push(given[1]);
        return acquire(...given);
      };
      const seen: unknown[] = [];
      const following = made(bench, seen)
        .observe('t', { recover: { context: 'of eve' } })
        .subscribe();
      const createdAt = Date.parse((await store.describe('t'))?.createdAt ?? '');
      while (asked.length === 0) {
        await clock.whenPending();
        clock.advanceToNext();
        await new Promise((resolve) => setImmediate(resolve));
      }
      expect(clock.now()).toBeGreaterThanOrEqual(createdAt + leaseMs);
      await completed(store);
      expect(seen).toEqual(['of eve']);
      following.unsubscribe();
    }));

  it('R-04 is left to the call that retries a turn', () =>
    withStore(async (bench) => {
      const { store } = bench;
      await made(bench).submit('Hi.', { taskId: 'failed' });
      await AgentLoop.cancel('failed', { store });
      const seen: unknown[] = [];
      const read = store.read.bind(store);
      const held = gate();
      const turn = (() => {
        store.read = async (taskId, options) => {
          const isCopied = taskId === 't' && (await store.describe('t')) !== null;
          if (isCopied) await held.pass();
          return read(taskId, options);
        };
        return made(bench, seen).retry('failed', { taskId: 't', context: 'of ann', detached: true });
      })();
      await held.reached;
      store.read = read;
      expect(await made(bench).recover()).toBe(0);
      held.open();
      await turn.settled;
      expect(seen).toEqual(['of ann']);
    }));
});

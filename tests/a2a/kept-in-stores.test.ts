import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { InMemoryArtifactStore, InMemoryStateStore, type TaskStateStore } from 'millrace';
import { KeptInStores, Scope, type StoresOfKept } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { RedisBench } from '../stores/redis/redis-bench.ts';

const scope = new Scope('echo', 'alice');
const other = new Scope('echo', 'bob');
const all = Number.POSITIVE_INFINITY;
const big = 'x'.repeat(10_000);

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

function lmdb(): TaskStateStore {
  const path = mkdtempSync(join(tmpdir(), 'millrace-kept-'));
  const store = new LmdbStateStore({ path });
  closing.push(
    () => rmSync(path, { recursive: true }),
    () => store.close(),
  );
  return store;
}

function kept(journals: TaskStateStore, more: Partial<StoresOfKept> = {}): KeptInStores {
  const ready = async <T>(ask: () => T | Promise<T>) => ask();
  const { messages: conversations } = journals;
  return new KeptInStores({
    agentId: 'echo',
    journals,
    conversations,
    artifacts: undefined,
    push: undefined,
    ready,
    ...more,
  });
}

/** A task of somebody, whose first message is `text`. */
async function task(store: TaskStateStore, of: Scope, { taskId = 't', agentId = 'echo', text = big, at = 1 } = {}) {
  const contextId = of.contextIn(taskId);
  const messages = [{ role: 'user' as const, content: text }];
  await store.create(taskId, {
    type: 'turn.started',
    seq: 1,
    epoch: 0,
    at,
    schema: 1,
    taskId,
    contextId,
    agentId,
    messages,
    settings: {},
  });
  return contextId;
}

/** What everything of a store has to hold for, whether it counts bytes itself or not. */
function cases(open: () => TaskStateStore): void {
  it('H-17 counts journals and commands, of the owner only', async () => {
    const store = open();
    const stores = kept(store);
    await task(store, scope);
    await task(store, other, { taskId: 'of-bob' });
    const first = await stores.count(scope, all);
    expect(first).toBeGreaterThan(10_000);
    expect(first).toBeLessThan(11_000);
    // Again, and by a process that begins now.
    expect(await stores.count(scope, all)).toBe(first);
    expect(await kept(store).count(scope, all)).toBe(first);
  });

  it('H-17 counts conversations, also those whose tasks are gone', async () => {
    const store = open();
    const stores = kept(store);
    const contextId = await task(store, scope, { text: 'Hi' });
    const before = await stores.count(scope, all);
    await store.messages?.append(contextId, 't', [{ role: 'user', content: big }]);
    const one = await stores.count(scope, all);
    expect(one - before).toBeGreaterThan(10_000);
    await store.messages?.append(contextId, 'u', [{ role: 'assistant', content: big }]);
    const two = await stores.count(scope, all);
    expect(two - one).toBeGreaterThan(10_000);
    expect(await kept(store).count(scope, all)).toBe(two);
    await store.delete('t');
    const left = await stores.count(scope, all);
    expect(left).toBeGreaterThan(20_000);
    expect(left).toBeLessThan(two);
    await store.messages?.delete(contextId);
    expect(await stores.count(scope, all)).toBe(0);
  });

  it('H-17 counts artifacts in all versions', async () => {
    const store = open();
    const artifacts = new InMemoryArtifactStore({ keepVersions: 3 });
    const stores = kept(store, { artifacts });
    const contextId = await task(store, scope, { text: 'Hi' });
    const before = await stores.count(scope, all);
    artifacts.create({ artifactId: 'a', name: 'a.txt', content: big, contextId, taskId: 't' });
    for (let version = 2; version < 6; version++) {
      artifacts.update('a', { content: big });
      expect((await stores.count(scope, all)) - before).toBe(Math.min(version, 3) * 10_000);
    }
    artifacts.create({ artifactId: 'b', name: 'b.txt', content: big, contextId: other.contextIn('c') });
    expect((await stores.count(scope, all)) - before).toBe(30_000);
    artifacts.delete('a');
    expect(await stores.count(scope, all)).toBe(before);
  });

  it('H-17 counts registrations for notifications, with their secrets', async () => {
    const store = open();
    await task(store, scope, { text: 'Hi' });
    const before = await kept(store).count(scope, all);
    const shown = {
      tenant: '',
      taskId: 't',
      id: 'c',
      url: 'https://a.example/hook',
      token: big,
      authentication: undefined,
    };
    const none = async () => {
      throw new Error('not asked');
    };
    const push = { check: none, create: none, get: none, delete: none, list: async () => [shown] };
    expect((await kept(store, { push }).count(scope, all)) - before).toBeGreaterThan(10_000);
    const counting = { ...push, list: none, bytes: async () => 20_000 };
    expect((await kept(store, { push: counting }).count(scope, all)) - before).toBe(20_000);
  });

  it('H-17 counts all groups of the agent for those who do not say who they are', async () => {
    const store = open();
    const stores = kept(store);
    const tenants = ['a', 'b', 'c'].map((tenant) => new Scope('echo', JSON.stringify([tenant]), { isAnonymous: true }));
    for (const [index, tenant] of tenants.entries()) {
      const taskId = `t${index}`;
      await store.messages?.begin(await task(store, tenant, { taskId }), taskId);
    }
    const ofOther = new Scope('other', JSON.stringify(['a']), { isAnonymous: true });
    await store.messages?.begin(await task(store, ofOther, { taskId: 'o', agentId: 'other' }), 'o');
    await store.messages?.begin('none-of-a2a', 'x');
    for (const tenant of tenants) {
      const bytes = await stores.count(tenant, all);
      expect(bytes).toBeGreaterThan(30_000);
      expect(bytes).toBeLessThan(33_000);
    }
  });

  it('H-17 counts beyond one page, and stops beyond the limit', async () => {
    const store = open();
    for (let number = 0; number < 450; number++)
      await task(store, scope, { taskId: `t${number}`, text: 'Hi', at: 1 + Math.floor(number / 100) });
    const bytes = await kept(store).count(scope, all);
    const [{ bytes: one = bytes / 450 } = {}] = await store.list({ byStatus: { group: scope.group }, limit: 1 });
    expect(Math.abs(bytes - 450 * one)).toBeLessThan(450 * 3);
    const list = jest.spyOn(store, 'list');
    expect(await kept(store).count(scope, 100)).toBeGreaterThan(100);
    expect(list).toHaveBeenCalledTimes(1);
  });
}

describe('what is kept in memory', () => cases(() => new InMemoryStateStore()));
describe('what is kept in LMDB', () => cases(lmdb));
describeRedis('what is kept in Redis', () => {
  const bench = new RedisBench();
  cases(() => bench.open({ prefix: crypto.randomUUID() }));
});

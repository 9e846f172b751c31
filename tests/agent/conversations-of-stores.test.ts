import { afterEach, describe, expect, it } from '@jest/globals';
import {
  agent,
  InMemoryMessageStore,
  InMemoryStateStore,
  snapshotStateStore,
  type TaskStateStore,
  team,
} from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';
import { RedisStateStore } from 'millrace/redis';
import { scriptedLLM } from 'millrace/testing';
import { clientOf, message, serverBench } from '../a2a/server/test-server.ts';
import { TemporaryStores } from '../stores/lmdb/temporary-stores.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { RedisBench } from '../stores/redis/redis-bench.ts';
import { PlainMap } from '../stores/snapshot/plain-map.ts';

const stores = new TemporaryStores();
afterEach(() => stores.clear());

const said = [
  { role: 'user', content: 'I am Ann.' },
  { role: 'assistant', content: 'Hello Ann.' },
  { role: 'user', content: 'Who am I?' },
];

/** The history that the second of two agents is asked with, each with stores of its own, as after a restart. */
async function rememberedBy(open: () => TaskStateStore & { close(): Promise<void> }) {
  const first = open();
  const before = agent({ name: 'shop', provider: scriptedLLM([{ text: 'Hello Ann.' }]), taskStateStore: first });
  await before.startTurn('I am Ann.', { contextId: 'c' }).result();
  await first.close();
  const second = open();
  const provider = scriptedLLM([{ text: 'Ann.' }]);
  const after = agent({ name: 'shop', provider, taskStateStore: second });
  await after.startTurn('Who am I?', { contextId: 'c' }).result();
  await second.close();
  return provider.calls[0]?.messages;
}

describe('an agent with a taskStateStore and no messageStore', () => {
  it('H-34 remembers its conversation after a restart, in LMDB', async () => {
    const path = stores.path();
    expect(await rememberedBy(() => new LmdbStateStore({ path }))).toMatchObject(said);
  });

  it('H-34 served as in the A2A guide remembers its conversation after a restart', async () => {
    const path = stores.path();
    const serve = async (provider: ReturnType<typeof scriptedLLM>) => {
      const taskStateStore = new LmdbStateStore({ path });
      const shop = agent({ name: 'shop', description: 'Helps.', provider, taskStateStore, busy: 'queue' });
      const served = await bench.serve({ agent: shop });
      const close = async () => {
        await served.server.close();
        await taskStateStore.close();
      };
      return { client: await clientOf(served.url), close };
    };
    const before = await serve(scriptedLLM([{ text: 'Hello Ann.' }]));
    const task = await before.client.sendMessage(message('I am Ann.'));
    await before.close();
    const contextId = 'contextId' in task ? String(task.contextId) : '';
    const provider = scriptedLLM([{ text: 'Ann.' }]);
    const after = await serve(provider);
    const next = message('Who am I?');
    await after.client.sendMessage({ ...next, message: { ...next.message, contextId } });
    await after.close();
    expect(provider.calls[0]?.messages).toMatchObject(said);
  });

  it('H-34 is refused where the store keeps no conversations, with the cure', async () => {
    const taskStateStore = snapshotStateStore(new PlainMap());
    const options = { name: 'shop', provider: scriptedLLM([]), taskStateStore };
    const refusal = expect.objectContaining({
      code: 'INVALID_CONFIG',
      message: expect.stringContaining('give messageStore too'),
    });
    expect(() => agent(options)).toThrow(refusal);
    expect(() => agent({ ...options, messageStore: new InMemoryMessageStore() })).not.toThrow();
    const member = agent({ name: 'one', provider: scriptedLLM([]) });
    expect(() => team({ agents: [member], taskStateStore })).toThrow(refusal);
  });

  it('is refused by what a store is, before what it keeps', () => {
    for (const given of ['".millrace"', '{}']) {
      const taskStateStore = JSON.parse(given);
      const provider = scriptedLLM([]);
      expect(() => agent({ provider, taskStateStore })).toThrow(/^taskStateStore must be a TaskStateStore/);
      expect(() => team({ agents: [agent({ name: 'one', provider })], taskStateStore })).toThrow(
        /^taskStateStore must be/,
      );
    }
  });

  it('H-34 keeps conversations where a taskStateStore is given later, and not in place of a messageStore', async () => {
    const store = new InMemoryStateStore();
    const given = new InMemoryMessageStore();
    const settings = { name: 'shop', provider: scriptedLLM([{ text: 'a' }, { text: 'b' }]) };
    await agent(settings).with({ taskStateStore: store }).startTurn('Hi', { contextId: 'c' }).result();
    expect(await store.messages.load('c')).toMatchObject({ total: 2 });
    await agent({ ...settings, messageStore: given })
      .with({ taskStateStore: store })
      .startTurn('Hi', { contextId: 'd' })
      .result();
    expect(await given.load('d')).toMatchObject({ total: 2 });
    expect(await store.messages.load('d')).toMatchObject({ total: 0 });
  });
});

const bench = serverBench();

describeRedis('an agent with a RedisStateStore and no messageStore', () => {
  const redis = new RedisBench();

  it('H-34 remembers its conversation after a restart', async () => {
    const open = () => new RedisStateStore({ redis: redis.server.url });
    expect(await rememberedBy(open)).toMatchObject(said);
  });
});

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { open } from 'lmdb';
import {
  type ArtifactStore,
  agent,
  agentTools,
  artifactTools,
  erase,
  InMemoryArtifactStore,
  InMemoryMessageStore,
  InMemoryStateStore,
  type MessageStore,
  type TaskStateStore,
} from 'millrace';
import { InMemoryPushStore, ownersOf, type PushStore } from 'millrace/a2a';
import { AgentLoop, refuses, startRecord } from 'millrace/internals';
import { LmdbMessageStore, LmdbPushStore, LmdbStateStore } from 'millrace/lmdb';
import { PostgresMessageStore, PostgresPushStore, PostgresStateStore } from 'millrace/postgres';
import { RedisArtifactStore, RedisMessageStore, RedisPushStore, RedisStateStore } from 'millrace/redis';
import { type FakeClock, fakeClock, type LLMStep, scriptedLLM } from 'millrace/testing';
import { eventually } from '../eventually.ts';
import { held, stamp } from './held-task.ts';
import { describePostgres } from './postgres/describe-postgres.ts';
import { type PostgresProcess, startPostgres } from './postgres/postgres-process.ts';
import { sql } from './postgres/sql.ts';
import { describeRedis } from './redis/describe-redis.ts';
import { type RedisProcess, startRedis } from './redis/redis-process.ts';

/** In every message of the tests, and in no id. */
const secret = 'Rumpelstiltskin';

interface Stores {
  readonly taskStateStore: TaskStateStore;
  readonly messageStore: MessageStore;
  readonly artifactStore: ArtifactStore;
  readonly pushStore: PushStore;
}

interface Opened extends Stores {
  /** All keys and values of the store, for stores outside this process. */
  readonly raw?: () => Promise<string> | string;
  readonly close: () => Promise<unknown>;
}

/** What the stores of an agent take. */
function storesOf({ taskStateStore, messageStore, artifactStore, pushStore }: Stores): Stores {
  return { taskStateStore, messageStore, artifactStore, pushStore };
}

/** An agent on the stores, whose model follows the script. */
function shop({ taskStateStore, messageStore, artifactStore }: Stores, steps: readonly LLMStep[], tools = true) {
  const helper = agent({
    name: 'helper',
    description: 'Helps.',
    provider: scriptedLLM([{ text: secret }]),
    taskStateStore,
  });
  return agent({
    name: 'shop',
    provider: scriptedLLM(steps),
    taskStateStore,
    messageStore,
    ...(tools && { toolProviders: [artifactTools(artifactStore), agentTools([helper])] }),
  });
}

const keeps: LLMStep = {
  toolCalls: [
    { name: 'create_artifact', arguments: { name: 'a.txt', content: secret } },
    { name: 'helper', arguments: { message: secret } },
  ],
};

/** A finished turn with a child turn, an artifact and a registration. */
async function finishedTurn(stores: Stores, contextId: string, taskId: string): Promise<void> {
  await shop(stores, [keeps, { text: secret }])
    .startTurn(secret, { contextId, taskId })
    .result();
  await register(stores, taskId);
}

async function register({ pushStore }: Stores, taskId: string): Promise<void> {
  await pushStore.add({ taskId, configId: 'p', url: 'https://example.com/hook', version: '1.0' }, 5);
}

/** The ids of all that the stores have. */
async function left({ taskStateStore, messageStore, artifactStore, pushStore }: Stores, tasks: readonly string[] = []) {
  const registered = await Promise.all(tasks.map((taskId) => pushStore.list(taskId)));
  return {
    tasks: (await taskStateStore.list({ limit: 1_000 })).map(({ taskId }) => taskId),
    contexts: (await messageStore.contexts({ limit: 1_000 })).contexts.map(({ contextId }) => contextId),
    artifacts: (await artifactStore.list({ limit: 1_000 })).artifacts.map(({ artifactId }) => artifactId),
    registered: registered.flat().map(({ taskId }) => taskId),
  };
}

const nothing = { tasks: [], contexts: [], artifacts: [], registered: [] };

/** Resolves once the turn waits for its model. */
function untilModel({ taskStateStore }: Stores, taskId: string): Promise<void> {
  return eventually(async () => {
    if ((await taskStateStore.describe(taskId)) === null) return false;
    return (await taskStateStore.read(taskId)).some(({ type }) => type === 'llm.start');
  });
}

/** A store whose method waits for a promise. */
function gated(store: MessageStore, name: 'append' | 'begin', gate: Promise<void>, reached: () => void): MessageStore {
  return new Proxy(store, {
    get(target, property) {
      const member: unknown = Reflect.get(target, property, target);
      if (typeof member !== 'function') return member;
      return property === name
        ? async (...given: unknown[]) => {
            reached();
            await gate;
            return Reflect.apply(member, target, given);
          }
        : member.bind(target);
    },
  });
}

function signal() {
  let done = () => {};
  const promise = new Promise<void>((resolve) => {
    done = resolve;
  });
  return { promise, done };
}

/** Runs an erase whose deadlines pass at once. */
async function withinDeadlines<T>(run: (clock: FakeClock) => Promise<T>): Promise<T> {
  const clock = fakeClock();
  let isOver = false;
  const running = run(clock).finally(() => {
    isOver = true;
  });
  await eventually(() => {
    clock.advance(10_000);
    return isOver;
  });
  return running;
}

function contract(openStores: () => Promise<Opened> | Opened): void {
  let opened: Opened | undefined;
  const make = async () => {
    opened = await openStores();
    return opened;
  };
  const expectNothing = async (stores: Opened, tasks: readonly string[]) => {
    expect(await left(stores, tasks)).toEqual(nothing);
    expect((await stores.raw?.()) ?? '').not.toContain(secret);
  };
  afterEach(async () => {
    await opened?.close();
    opened = undefined;
  });

  it('R-25 erases turns, child turns, the conversation, artifacts and registrations of a context, and of no other', async () => {
    const stores = await make();
    await finishedTurn(stores, 'c', 't1');
    await finishedTurn(stores, 'c', 't2');
    await finishedTurn(stores, 'c2', 'other');
    await stores.artifactStore.create({ name: 'b.txt', contextId: 'c', content: secret });
    expect((await stores.messageStore.load('c')).messages).not.toHaveLength(0);
    const { total } = await stores.messageStore.load('c');
    const other = await stores.messageStore.load('c2');
    const erased = await erase({ ...storesOf(stores), contextId: 'c' });
    expect(erased).toEqual({ tasks: 4, contexts: 1, messages: total, artifacts: 3, pushRegistrations: 2 });
    expect(await left(stores, ['t1', 't2', 'other'])).toEqual({
      tasks: expect.arrayContaining(['other', 'other:1:1']),
      contexts: ['c2'],
      artifacts: [expect.any(String)],
      registered: ['other'],
    });
    expect(await stores.messageStore.load('c2')).toEqual(other);
    const again = await erase({ ...storesOf(stores), contextId: 'c' });
    expect(again).toEqual({ tasks: 0, contexts: 0, messages: 0, artifacts: 0, pushRegistrations: 0 });
    await erase({ ...storesOf(stores), contextId: 'c2' });
    await expectNothing(stores, ['t1', 't2', 'other']);
  });

  it('R-25 erases the contexts of an owner, and of no other', async () => {
    const stores = await make();
    await finishedTurn(stores, 'alice:notes', 't1');
    await finishedTurn(stores, 'alice:letters', 't2');
    await finishedTurn(stores, 'alicia:notes', 't3');
    await finishedTurn(stores, 'alice', 't4');
    await stores.messageStore.append('alice:old', 'gone', [{ role: 'user', content: secret }]);
    await stores.artifactStore.create({ name: 'b.txt', contextId: 'alice:older', content: secret });
    const erased = await erase({ ...storesOf(stores), owner: 'alice' });
    expect(erased).toMatchObject({ tasks: 4, contexts: 3, artifacts: 3, pushRegistrations: 2 });
    const rest = await left(stores, ['t1', 't2', 't3', 't4']);
    expect(rest.contexts).toEqual(['alice', 'alicia:notes']);
    expect([...rest.tasks].sort()).toEqual(['t3', 't3:1:1', 't4', 't4:1:1']);
    expect(rest.registered).toEqual(['t3', 't4']);
    for (const contextId of ['alice', 'alicia:notes']) await erase({ ...storesOf(stores), contextId });
    await expectNothing(stores, ['t1', 't2', 't3', 't4']);
  });

  it('R-25 stops a running turn, which writes nothing back', async () => {
    const stores = await make();
    await finishedTurn(stores, 'c', 't1');
    const turn = shop(stores, [{ never: true }]).startTurn(secret, { contextId: 'c', taskId: 't2', detached: true });
    await untilModel(stores, 't2');
    await register(stores, 't2');
    const erased = await erase({ ...storesOf(stores), contextId: 'c' });
    expect(erased.tasks).toBe(3);
    await turn.settled.catch(() => {});
    await expectNothing(stores, ['t1', 't2']);
  });

  it('R-25 the messages of a turn that has just ended are not appended after the erase', async () => {
    const stores = await make();
    const [gate, reached] = [signal(), signal()];
    const messageStore = gated(stores.messageStore, 'append', gate.promise, reached.done);
    const turn = shop({ ...stores, messageStore }, [{ text: secret }], false).startTurn(secret, {
      contextId: 'c',
      taskId: 't',
      detached: true,
    });
    await reached.promise;
    expect(await stores.taskStateStore.describe('t')).toMatchObject({ state: 'completed' });
    await erase({ ...storesOf(stores), contextId: 'c' });
    gate.done();
    await turn.settled;
    await expectNothing(stores, ['t']);
  });

  it('R-25 a fork, which runs without a registration, is stored once, and not after the erase', async () => {
    const stores = await make();
    const { taskStateStore, messageStore } = stores;
    await shop(stores, [{ text: secret }], false)
      .startTurn(secret, { contextId: 'c', taskId: 't' })
      .result();
    for (const taskId of ['f1', 'f2']) await AgentLoop.fork('t', { store: taskStateStore, at: 0, taskId });
    await shop(stores, [{ text: secret }], false)
      .resume('f1')
      .result();
    const { messages } = await messageStore.list('c');
    expect(new Set(messages.map(({ taskId }) => taskId))).toEqual(new Set(['t', 'f1']));
    const [gate, reached] = [signal(), signal()];
    const gate2 = gated(messageStore, 'append', gate.promise, reached.done);
    const turn = shop({ ...stores, messageStore: gate2 }, [{ text: secret }], false).resume('f2', { detached: true });
    await reached.promise;
    await erase({ ...storesOf(stores), contextId: 'c' });
    gate.done();
    await turn.settled;
    await expectNothing(stores, ['t', 'f1', 'f2']);
  });

  it('R-25 a turn that registers in its context after the erase leaves no registration', async () => {
    const stores = await make();
    const [gate, reached] = [signal(), signal()];
    const messageStore = gated(stores.messageStore, 'begin', gate.promise, reached.done);
    const turn = shop({ ...stores, messageStore }, [], false).startTurn(secret, {
      contextId: 'c',
      taskId: 't',
      detached: true,
    });
    const settled = turn.settled.catch((error: unknown) => error);
    await reached.promise;
    await withinDeadlines((clock) => erase({ ...storesOf(stores), contextId: 'c', clock }));
    gate.done();
    expect(await settled).toMatchObject({ code: 'NOT_FOUND' });
    await expectNothing(stores, ['t']);
  });

  it('R-25 a turn whose process does not answer stops at its next append', async () => {
    const stores = await make();
    const lease = await held(stores.taskStateStore, 't');
    const { contextId } = (await stores.taskStateStore.describe('t')) ?? { contextId: '' };
    await stores.messageStore.begin(contextId, 't');
    const erased = await withinDeadlines((clock) => erase({ ...storesOf(stores), contextId, clock }));
    expect(erased).toMatchObject({ tasks: 1, contexts: 1 });
    const records = stamp(lease, 2, { type: 'note', text: secret } as never);
    await refuses('NOT_FOUND', () =>
      stores.taskStateStore.append(lease, records, { status: 'working', barrier: true }),
    );
    const said = [{ role: 'user', content: secret }] as const;
    expect(await stores.messageStore.append(contextId, 't', said, { registered: true })).toEqual({ appended: false });
    await expectNothing(stores, ['t']);
  });

  it('R-25 completes an erase that broke off, at whichever deletion', async () => {
    const stores = await make();
    for (const store of ['taskStateStore', 'messageStore', 'artifactStore', 'pushStore'] as const) {
      await finishedTurn(stores, 'alice:c', 't');
      const broken = new Proxy(stores[store], {
        get(target: object, property) {
          if (property === 'delete') return () => Promise.reject(new Error('the process died'));
          const member: unknown = Reflect.get(target, property, target);
          return typeof member === 'function' ? member.bind(target) : member;
        },
      });
      await expect(erase({ ...storesOf(stores), [store]: broken, owner: 'alice' })).rejects.toThrow('the process died');
      expect(await left(stores, ['t'])).not.toEqual(nothing);
      await erase({ ...storesOf(stores), owner: 'alice' });
      await expectNothing(stores, ['t']);
    }
  });

  it('R-25 erases more turns of a context than a page has', async () => {
    const stores = await make();
    const loop = new AgentLoop({
      agentId: 'a',
      llmProvider: scriptedLLM([]),
      taskStateStore: stores.taskStateStore,
    });
    const ids = Array.from({ length: 120 }, (_, index) => `t${index}`);
    for (const taskId of ids) await loop.submit([{ role: 'user', content: secret }], { taskId, contextId: 'a:c' });
    expect(await erase({ ...storesOf(stores), owner: 'a' })).toMatchObject({ tasks: 120 });
    await expectNothing(stores, []);
  });
}

describe('erase in memory', () => {
  contract(() => ({
    taskStateStore: new InMemoryStateStore(),
    messageStore: new InMemoryMessageStore(),
    artifactStore: new InMemoryArtifactStore(),
    pushStore: new InMemoryPushStore(),
    close: async () => {},
  }));

  it.each([
    [{}, /either contextId or owner/],
    [{ contextId: 'c', owner: 'o' }, /either contextId or owner/],
    [{ contextId: 'a b' }, /contextId must be/],
    [{ owner: 'alice:notes' }, /owner must be/],
  ])('R-25 refuses %j', async (given, sentence) => {
    await expect(erase(given as never)).rejects.toThrow(sentence);
  });

  it('R-25 refuses an option that it does not know', async () => {
    await expect(erase({ contextId: 'c', store: 1 } as never)).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
  });

  it('R-25 deletes damaged journals, too', async () => {
    const taskStateStore = new InMemoryStateStore();
    await taskStateStore.create('t', { ...startRecord('t'), schema: 1_000 } as never);
    const { contextId = '' } = taskStateStore.describe('t') ?? {};
    expect(await erase({ taskStateStore, contextId })).toMatchObject({ tasks: 1 });
    expect(taskStateStore.describe('t')).toBeNull();
  });

  it('R-25 names the owners of a caller of a served agent', () => {
    const [a2a, ui] = ownersOf({ agentId: 'shop', user: 'ann' });
    expect(ownersOf({ agentId: 'shop', scope: JSON.stringify(['', 'ann']) })).toEqual([a2a, ui]);
    expect(ui).toMatch(/^ui\.[\w-]{22}$/);
    expect(ownersOf({ agentId: 'shop', user: 'bob' })).not.toContain(a2a);
  });
});

describe('erase in LMDB', () => {
  contract(() => {
    const path = mkdtempSync(join(tmpdir(), 'millrace-erase-'));
    const taskStateStore = new LmdbStateStore({ path });
    const messageStore = new LmdbMessageStore({ path });
    const pushStore = new LmdbPushStore({ path });
    return {
      taskStateStore,
      messageStore,
      pushStore,
      artifactStore: new InMemoryArtifactStore(),
      async raw() {
        const file = open<string, string>({ path, encoding: 'string' });
        const all = [...file.getRange()].map((entry) => JSON.stringify(entry)).join('\n');
        await file.close();
        return all;
      },
      async close() {
        await Promise.all([taskStateStore.close(), messageStore.close(), pushStore.close()]);
        rmSync(path, { recursive: true });
      },
    };
  });
});

let made = 0;

describeRedis('erase in Redis', () => {
  let redis: RedisProcess | undefined;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(async () => redis?.remove());
  contract(() => {
    const prefix = `erase-${made++}`;
    const options = { redis: redis?.url ?? '', prefix };
    const taskStateStore = new RedisStateStore(options);
    const messageStore = new RedisMessageStore(options);
    const artifactStore = new RedisArtifactStore(options);
    const pushStore = new RedisPushStore(options);
    return {
      taskStateStore,
      messageStore,
      artifactStore,
      pushStore,
      raw: () => {
        // The end of the deltas of a deleted task, for its readers, stays for a minute and has no content.
        const keys = (redis?.cli('KEYS', `${prefix}:*`) ?? '').split('\n').filter((key) => key !== '');
        expect(keys.filter((key) => !key.endsWith(':d'))).toEqual([]);
        return keys.map((key) => redis?.cli('DUMP', key)).join('\n');
      },
      close: () => Promise.all([taskStateStore, messageStore, artifactStore, pushStore].map((store) => store.close())),
    };
  });
});

describePostgres('erase in PostgreSQL', () => {
  let postgres: PostgresProcess | undefined;
  beforeAll(async () => {
    postgres = await startPostgres();
  });
  afterAll(async () => postgres?.remove());
  contract(async () => {
    const schema = `erase_${made++}`;
    const options = { postgres: postgres?.url ?? '', schema };
    const taskStateStore = new PostgresStateStore(options);
    await taskStateStore.migrate();
    const messageStore = new PostgresMessageStore(options);
    const pushStore = new PostgresPushStore(options);
    return {
      taskStateStore,
      messageStore,
      pushStore,
      artifactStore: new InMemoryArtifactStore(),
      async raw() {
        const url = postgres?.url ?? '';
        const tables = await Promise.all(
          ['task', 'record', 'command', 'row'].map((table) => sql(url, `select * from ${schema}.${table}`)),
        );
        expect(tables.flat()).toEqual([]);
        return JSON.stringify(tables);
      },
      close: () => Promise.all([taskStateStore, messageStore, pushStore].map((store) => store.close())),
    };
  });
});

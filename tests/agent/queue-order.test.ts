import { afterAll, describe, expect, it } from '@jest/globals';
import {
  agent,
  InMemoryStateStore,
  type LLMProvider,
  replay,
  type TaskStateStore,
  type TaskSummary,
  tool,
} from 'millrace';
import type { LmdbStateStore } from 'millrace/lmdb';
import { gate, scriptedLLM } from 'millrace/testing';
import type { AgentSettings } from 'millrace/types';
import { eventually } from '../eventually.ts';
import { ChildPrograms, kill, nextMessage } from '../stores/lmdb/child-programs.ts';
import { TemporaryStores } from '../stores/lmdb/temporary-stores.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { RedisBench } from '../stores/redis/redis-bench.ts';

const programs = new ChildPrograms('tests/agent/children');
const stores = new TemporaryStores();
afterAll(() => Promise.all([programs.clear(), stores.clear()]));

const sent = ['m-1', 'm-2', 'm-3', 'm-4'];
const moments = [
  ['begin', 'm-1'],
  ['begin', 'm-3'],
  ['create', 'm-2'],
] as const;

/** What nobody runs, the newest first, once the leases of the dead process are over. */
async function abandoned(store: TaskStateStore): Promise<readonly TaskSummary[]> {
  for (;;) {
    const [all, runnable] = await Promise.all([store.list(), store.list({ runnable: true })]);
    if (runnable.length === all.length) return runnable;
  }
}

/** Two agents on a store that resume all, the newest first: what their model was asked, in its order. */
async function recovered(store: TaskStateStore, options: Partial<AgentSettings> = {}): Promise<readonly unknown[]> {
  const asked: unknown[] = [];
  const provider: LLMProvider = {
    async call({ messages }) {
      asked.push(messages.at(-1)?.content);
      return { message: { role: 'assistant', content: `to ${messages.at(-1)?.content}` } };
    },
  };
  const settings = { id: 'ada', contextId: 'c', provider, taskStateStore: store, busy: 'queue' as const, ...options };
  const agents = [agent(settings), agent(settings)];
  const tasks = await abandoned(store);
  // A commit in which a process was killed is hidden from the readers of LMDB until somebody writes: a renewal is then seen only by who resumes.
  await Promise.all(tasks.map(({ taskId }, index) => agents[index % 2]?.resume(taskId, { onBusy: 'wait' }).result()));
  return asked;
}

/** Kills a process that sends four messages, and resumes what it left. */
async function checkOrder(store: TaskStateStore, kind: string, place: string, at: readonly string[]): Promise<void> {
  const child = programs.start('queue', kind, place, ...at);
  const [accepted] = await nextMessage(child);
  await kill(child);
  const left = (await store.list()).map(({ taskId }) => taskId);
  expect(left).toEqual(expect.arrayContaining(accepted));
  expect(await recovered(store)).toEqual(sent.filter((taskId) => left.includes(taskId)));
  expect((await store.messages?.load('c'))?.openTurns).toEqual([]);
}

it.each(moments)(
  'H-33 LMDB: messages of a killed process run in the order in which they were sent: killed in %s of %s',
  async (...at) => {
    const path = stores.path();
    await checkOrder(stores.open({ path }), 'lmdb', path, at);
  },
);

describeRedis('on Redis', () => {
  const bench = new RedisBench();
  it.each(moments)(
    'H-33 messages of a killed process run in the order in which they were sent: killed in %s of %s',
    async (...at) => {
      await bench.server.cliLater('flushall');
      await checkOrder(bench.open({ prefix: 'queue' }), 'redis', bench.server.url, at);
    },
  );
});

it('H-33 in memory: messages of an agent that is gone run in the order in which they were sent', async () => {
  const store = new InMemoryStateStore();
  const lost = gate();
  const { messages } = store;
  const begin = messages.begin.bind(messages);
  const frozen = Object.assign(Object.create(messages), {
    begin: (contextId: string, taskId: string) => (taskId === 'm-2' ? lost.pass() : begin(contextId, taskId)),
  });
  const down = new AbortController();
  const provider: LLMProvider = { call: () => new Promise(() => {}) };
  const settings = { id: 'ada', contextId: 'c', provider, taskStateStore: store, messageStore: frozen };
  const gone = agent({ ...settings, busy: 'queue', shutdown: down.signal });
  const turns = sent.map((taskId) => gone.startTurn(taskId, { taskId, detached: true }));
  await lost.reached;
  down.abort();
  await Promise.allSettled(turns.map((turn) => turn.settled));
  const left = store.list().map(({ taskId }) => taskId);
  expect(await recovered(store)).toEqual(sent.filter((taskId) => left.includes(taskId)));
});

const pay = tool({
  name: 'pay',
  description: 'Pays.',
  parameters: { type: 'object' },
  needsApproval: true,
  execute: () => 'paid',
});

/** A process with an agent in the context `c`, and what stops it. */
function serving(store: LmdbStateStore, options: Partial<AgentSettings> = {}) {
  const down = new AbortController();
  const queued = gate();
  const logger = {
    debug() {},
    warn() {},
    error() {},
    info: (line: string) => void (line === 'turn queued' && queued.pass()),
  };
  const settings = { id: 'ada', contextId: 'c', busy: 'queue' as const, tools: [pay], enableTracing: false };
  const provider = scriptedLLM([{ toolCalls: [{ name: 'pay' }] }, { text: 'Paid.' }, { text: 'Two.' }]);
  const ada = agent({ ...settings, provider, taskStateStore: store, logger, shutdown: down.signal, ...options });
  /** Once its turns have given their leases back. */
  const stop = async (...turns: readonly { readonly settled: Promise<unknown> }[]) => {
    down.abort();
    await Promise.allSettled(turns.map(({ settled }) => settled));
    await store.close();
  };
  return { ada, queued: queued.reached, stop };
}

describe('a message behind a turn that waits for an answer', () => {
  it('H-33 is answered after 12 restarts of its server', async () => {
    const path = stores.path();
    const first = serving(stores.open({ path }));
    await first.ada.run('Pay.', { taskId: 'asks' });
    const started = first.ada.startTurn('And now?', { taskId: 'next', detached: true });
    await first.queued;
    await first.stop(started);
    for (let restart = 0; restart < 12; restart++) {
      const server = serving(stores.open({ path }));
      const resumed = server.ada.resume('next', { detached: true });
      await server.queued;
      await server.stop(resumed);
    }
    const provider = scriptedLLM([{ text: 'Paid.' }, { text: 'Two.' }]);
    const store = stores.open({ path });
    const last = serving(store, { provider });
    const next = last.ada.resume('next', { detached: true });
    await last.ada.resume('asks', { answers: { '1:0': { approved: true } } }).result();
    await expect(next.result()).resolves.toMatchObject({ status: 'completed', text: 'Two.' });
    await expect(replay(await store.read('next')).result()).resolves.toMatchObject({ text: 'Two.', deviations: [] });
  });

  it('fails with POISON after maxResumes where each process that resumes it is killed', async () => {
    const path = stores.path();
    const { ada } = serving(stores.open({ path }), { maxResumes: 2 });
    await ada.run('Pay.', { taskId: 'asks' });
    for (const mode of ['start', 'resume', 'resume']) {
      const child = programs.start('queued', path, 'next', mode);
      await nextMessage(child);
      await kill(child);
    }
    await expect(ada.resume('next', { onBusy: 'wait' }).result()).rejects.toMatchObject({ code: 'POISON' });
  });

  it('R-04 is answered where the turn before it stops each process, and ends with POISON', async () => {
    const path = stores.path();
    const store = stores.open({ path });
    const takeOvers = () => store.read('next').filter(({ type }) => type === 'turn.resumed').length;
    for (let life = 0; life < 4; life++) {
      const child = programs.start('queued', path, 'next', 'behind');
      await nextMessage(child);
      await eventually(() => takeOvers() === life);
      await kill(child);
    }
    const { ada } = serving(store, { maxResumes: 2, provider: scriptedLLM([{ text: 'Two.' }]) });
    await expect(ada.resume('first', { onBusy: 'wait' }).result()).rejects.toMatchObject({ code: 'POISON' });
    await expect(ada.resume('next', { onBusy: 'wait' }).result()).resolves.toMatchObject({ text: 'Two.' });
    expect(await store.read('next')).toContainEqual(expect.objectContaining({ type: 'turn.resumed', waited: true }));
  });

  it('R-04 stays open where it never gets as far as to wait', async () => {
    const store = stores.open();
    const { ada } = serving(store);
    await ada.run('Pay.', { taskId: 'asks' });
    await store.messages.begin('c', 'next');
    const down = new AbortController();
    const begun = serving(store, { shutdown: down.signal });
    begun.ada.startTurn('And now?', { taskId: 'next', detached: true });
    await begun.queued;
    down.abort();
    const getTools = () => Promise.reject(new Error('away'));
    const away = { getTools, executeTool: getTools, canHandle: () => true };
    const provider = scriptedLLM([]);
    const broken = agent({
      id: 'ada',
      contextId: 'c',
      busy: 'queue',
      maxResumes: 2,
      provider,
      taskStateStore: store,
      toolProviders: [away],
    });
    for (let time = 0; time < 5; time++)
      await expect(broken.resume('next', { onBusy: 'wait' }).result()).rejects.toMatchObject({ code: 'MISSING_TOOL' });
    expect(await store.describe('next')).toMatchObject({ state: 'working' });
  });
});

import { once } from 'node:events';
import { afterAll, describe, expect, it } from '@jest/globals';
import { type Message, type TaskStateStore, textOf } from 'millrace';
import { Random } from '../crash/random.ts';
import { ChildPrograms } from '../stores/lmdb/child-programs.ts';
import { TemporaryStores } from '../stores/lmdb/temporary-stores.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { RedisBench } from '../stores/redis/redis-bench.ts';
import { answerFor, contextIds, type PlannedTurn, planOf, wordsIn } from './conversation-plan.ts';

const programs = new ChildPrograms('tests/agent/children');
const stores = new TemporaryStores();
afterAll(() => Promise.all([programs.clear(), stores.clear()]));

/** How many conversations are played; each with other kills. More find more. */
const seeds = Array.from({ length: Number(process.env['CONVERSATION_SEEDS'] ?? 2) }, (_, index) => index + 1);

interface Place {
  readonly kind: 'lmdb' | 'redis';
  readonly where: string;
  readonly prefix: string;
}

/** Processes that are killed at some moment, alone or two at a time, then one that ends what is left. Returns how many were killed. */
async function untilAllEnded({ kind, where, prefix }: Place, seed: number): Promise<number> {
  const random = new Random(seed);
  const run = async (doom: number, retention = '') => {
    const child = programs.start('conversing', kind, where, prefix, String(seed), String(doom), retention);
    const said: unknown[] = [];
    child.on('message', (text) => said.push(text));
    await once(child, 'close');
    if (child.signalCode !== 'SIGKILL') expect(said).toEqual(['all']);
    return child.signalCode === 'SIGKILL';
  };
  let killed = 0;
  for (let round = 0; round < 5; round++) {
    const two = random.chance(0.4);
    const dooms = Array.from({ length: two ? 2 : 1 }, () => random.int(1, round === 0 ? 400 : 150));
    const ended = await Promise.all(dooms.map((doom) => run(doom, two ? '' : 'forget')));
    killed += ended.filter(Boolean).length;
  }
  expect(await run(0)).toBe(false);
  return killed;
}

const contentOf = ({ content }: Message) => textOf(content);

/** What the store has of the turns of a context: the messages of each once, with the answer to exactly the words of its branch. Returns whether it has a summary. */
async function checkContext(
  store: TaskStateStore,
  contextId: string,
  planned: readonly PlannedTurn[],
): Promise<boolean> {
  const { messages: messageStore } = store;
  if (!messageStore) throw new Error('The store has no conversations.');
  const { openTurns, total, metadata } = await messageStore.load(contextId, { limit: 0 });
  const { messages } = await messageStore.list(contextId, { limit: 1_000 });
  expect(openTurns).toEqual([]);
  expect(total).toBe(messages.length);
  for (const { taskId, word, words } of planned) {
    const said = messages.filter((stored) => stored.taskId === taskId).map(({ message }) => message);
    expect([taskId, said.map(({ role }) => role).filter((role) => role !== 'tool')]).toEqual([
      taskId,
      said.length === 2 ? ['user', 'assistant'] : ['user', 'assistant', 'assistant'],
    ]);
    expect([taskId, said[0] && wordsIn(contentOf(said[0]))]).toEqual([taskId, [word]]);
    expect([taskId, said.at(-1) && contentOf(said.at(-1) as Message)]).toEqual([taskId, answerFor(words)]);
  }
  expect(new Set(messages.map(({ taskId }) => taskId)).size).toBe(planned.length);
  return metadata['compaction'] !== undefined;
}

async function survives(store: TaskStateStore, place: Place, seed: number): Promise<void> {
  expect(await untilAllEnded(place, seed)).toBeGreaterThan(0);
  const summarized: boolean[] = [];
  for (const contextId of contextIds) summarized.push(await checkContext(store, contextId, planOf(contextId, seed)));
  expect(summarized).toContain(true);
  const open = (await store.list({ limit: 1_000 })).filter(({ state }) => state !== 'completed');
  expect(open).toEqual([]);
}

describe('conversations with branches, summaries and retention whose processes are killed', () => {
  it.each(seeds)('C-02 R-11 have each turn once, behind the messages that it follows, in LMDB: %d', async (seed) => {
    const path = stores.path();
    await survives(stores.open({ path }), { kind: 'lmdb', where: path, prefix: '' }, seed);
  });

  describeRedis('in Redis', () => {
    const bench = new RedisBench();
    it.each(seeds)('C-02 R-11 have each turn once, behind the messages that it follows: %d', async (seed) => {
      const prefix = `killed-${seed}`;
      await survives(bench.open({ prefix }), { kind: 'redis', where: bench.server.url, prefix }, seed);
    });
  });
});

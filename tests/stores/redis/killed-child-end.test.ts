import { afterEach, expect, it } from '@jest/globals';
import { agent, agentTools, type JournalRecord, type TaskStateStore } from 'millrace';
import { RedisStateStore } from 'millrace/redis';
import { scriptedLLM } from 'millrace/testing';
import { describeRedis } from './describe-redis.ts';
import { type RedisProcess, startRedis } from './redis-process.ts';

const child = 't:1:0';
const isEnd = ({ type }: JournalRecord) => type === 'turn.done';

let redis: RedisProcess | undefined;
afterEach(async () => {
  await redis?.remove();
  redis = undefined;
});

interface Restart {
  readonly store: TaskStateStore;
  /** How often Redis was killed. */
  readonly kills: () => number;
}

/** Redis is killed and started again once it has acknowledged the end of the child turn, before the parent turn hears of it. */
function killedAtTheEnd(server: RedisProcess, real: RedisStateStore, savedBefore: boolean): Restart {
  let kills = 0;
  const append: TaskStateStore['append'] = async (lease, records, options) => {
    const isItsEnd = lease.taskId === child && records.some(isEnd) && kills === 0;
    if (isItsEnd && savedBefore) await server.cliLater('SAVE');
    const appended = await real.append(lease, records, options);
    if (!isItsEnd) return appended;
    kills++;
    await server.end('SIGKILL');
    await server.start();
    return appended;
  };
  const store: TaskStateStore = new Proxy<TaskStateStore>(real, {
    get(target, name) {
      if (name === 'append') return append;
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
  return { store, kills: () => kills };
}

function bossOn(taskStateStore: TaskStateStore, runs: boolean) {
  // A lost end is written by a child turn that is opened again: it repeats its model call if the answer is lost too.
  const answers = runs ? [{ text: 'the kid answers' }, { text: 'the kid answers' }] : [];
  const kid = agent({ id: 'kid', name: 'kid', description: 'Answers.', provider: scriptedLLM(answers) });
  const steps = runs ? [{ toolCalls: [{ name: 'kid', arguments: { message: 'go' } }] }, { text: 'END' }] : [];
  return agent({ id: 'boss', provider: scriptedLLM(steps), toolProviders: [agentTools([kid])], taskStateStore });
}

describeRedis('a Redis that is killed between the end of a child turn and its record in the parent turn', () => {
  it.each<readonly [string, readonly string[], boolean]>([
    ['with an append-only file', ['appendonly yes', 'appendfsync always', 'save ""'], false],
    [
      'with an append-only file that is synced every second',
      ['appendonly yes', 'appendfsync everysec', 'save ""'],
      false,
    ],
    ['without one, from a snapshot before the end', ['appendonly no', 'save ""'], true],
  ])('R-09 leaves parent and child turn in agreement: %s', async (_, config, savedBefore) => {
    redis = await startRedis({ config });
    const real = new RedisStateStore({ redis: redis.url });
    try {
      const { store, kills } = killedAtTheEnd(redis, real, savedBefore);
      const result = await bossOn(store, true).run('Go.', { taskId: 't' });
      expect([kills(), result.status, result.text]).toEqual([1, 'completed', 'END']);
      const called = (await real.read('t')).find((record) => record.type === 'tool.result');
      expect(called).toMatchObject({ success: true, content: 'the kid answers' });
      const ended = (await real.read(child)).at(-1);
      expect(ended).toMatchObject({ type: 'turn.done', text: 'the kid answers' });
      await bossOn(real, false).recover();
      expect((await real.read(child)).at(-1)).toEqual(ended);
    } finally {
      await real.close();
    }
  });

  it('R-09 loses the parent turn with its child turn where nothing was saved', async () => {
    redis = await startRedis({ config: ['appendonly no', 'save ""'] });
    const real = new RedisStateStore({ redis: redis.url });
    try {
      const { store, kills } = killedAtTheEnd(redis, real, false);
      await expect(bossOn(store, true).run('Go.', { taskId: 't' })).rejects.toMatchObject({ code: 'NOT_FOUND' });
      expect(kills()).toBe(1);
      expect(await real.list()).toEqual([]);
    } finally {
      await real.close();
    }
  });
});

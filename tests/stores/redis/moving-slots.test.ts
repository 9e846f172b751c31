import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { LocalToolProvider, tool } from 'millrace';
import { AgentLoop, upTo, watch } from 'millrace/internals';
import { RedisStateStore } from 'millrace/redis';
import { scriptedLLM } from 'millrace/testing';
import { describeRedis } from './describe-redis.ts';
import { type RedisCluster, startCluster } from './redis-cluster.ts';

describeRedis('RedisStateStore while a cluster moves slots', () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startCluster();
  });
  afterAll(() => cluster.remove());

  it('a turn whose keys move to another node ends normally, and its readers see it whole', async () => {
    const client = cluster.connect();
    const store = new RedisStateStore({ redis: client });
    const iterations = 300;
    const moves: Promise<void>[] = [];
    try {
      const move = tool({
        name: 'move',
        description: 'Moves the keys of the turn to the next node.',
        parameters: { type: 'object' },
        execute: (_, { taskId, iteration }) => {
          if (iteration % 100 === 5) moves.push(cluster.moveSlotOf(`{${taskId}}`));
          return 'x'.repeat(iteration === 2 ? 300_000 : 10);
        },
      });
      const loop = new AgentLoop({
        agentId: 'a',
        llmProvider: scriptedLLM([
          ...upTo(iterations - 1).map(() => ({ toolCalls: [{ name: 'move' }] })),
          { text: 'Done.' },
        ]),
        toolProviders: [new LocalToolProvider([move])],
        taskStateStore: store,
        maxIterations: iterations,
      });
      const turn = loop.startTurn([{ role: 'user', content: 'Go' }]);
      let follower: ReturnType<typeof watch> | undefined;
      turn.subscribe((event) => {
        if (event.kind === 'internal:iteration-start') follower ??= watch(store.follow(turn.taskId));
      });
      expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Done.' });
      await turn.settled;
      await Promise.all(moves);
      expect(moves).toHaveLength(3);
      await follower?.until('the end', ({ completed }) => completed);
      const records = await store.read(turn.taskId);
      expect(records.map(({ seq }) => seq)).toEqual(upTo(records.length));
      expect(follower?.values).toEqual(records.map((record) => ({ type: 'record', record })));
    } finally {
      await store.close();
      client.disconnect();
    }
  });
});

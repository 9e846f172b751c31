import { expect, it } from '@jest/globals';
import { type AgentLoopError, LocalToolProvider, tool } from 'millrace';
import { AgentLoop, done, noteRecord as note, refuses, seqsOf, startRecord, upTo, watch } from 'millrace/internals';
import { RedisStateStore } from 'millrace/redis';
import { gate, scriptedLLM } from 'millrace/testing';
import { describeRedis } from './describe-redis.ts';
import { beginHeld, RedisBench, sentUntilAnswered } from './redis-bench.ts';
import { startRedis } from './redis-process.ts';
import { TcpProxy } from './tcp-proxy.ts';

/** That a later try may help is part of the answer. */
async function refusesForNow(code: 'UNAVAILABLE' | 'FULL', action: () => unknown): Promise<AgentLoopError> {
  const error = await refuses(code, action);
  expect(error.retryable).toBe(true);
  return error;
}

describeRedis('RedisStateStore when Redis fails', () => {
  const bench = new RedisBench();

  it('is UNAVAILABLE soon where nothing listens, for every method, and no follower hangs', async () => {
    const store = bench.open({ redis: 'redis://127.0.0.1:1' });
    const error = await refusesForNow('UNAVAILABLE', () => store.create('t', startRecord('t')));
    expect(error.message).toBe(
      'Redis does not answer: "no connection, after several tries"; is it running, and can it be reached?',
    );
    const lease = { taskId: 't', owner: 'o', epoch: 1, seq: 1, leaseMs: 1_000 };
    const calls = [
      () => store.acquire('t', 'o', 1_000),
      () => store.append(lease, [], { status: 'working', barrier: true }),
      () => store.renew(lease),
      () => store.release(lease),
      () => store.post('t', { id: 'c', type: 'pause' }),
      () => store.read('t'),
      () => store.load('t'),
      () => store.list(),
      () => store.delete('t'),
      () => store.check(),
    ];
    await Promise.all(calls.map((call) => refusesForNow('UNAVAILABLE', call)));
    const follower = watch(store.follow('t'));
    await follower.until('an error', (reading) => reading.error !== undefined);
    await refusesForNow('UNAVAILABLE', () => Promise.reject(follower.error));
  });

  it('a wrong password is UNAVAILABLE for good, and is not told', async () => {
    const url = new URL(bench.server.url);
    url.username = 'somebody';
    url.password = 'hush-hush';
    const store = bench.open({ redis: url.href });
    const error = await refuses('UNAVAILABLE', () => store.read('t'));
    expect(error).toMatchObject({
      retryable: false,
      message: expect.stringMatching(/^Redis refuses this client: "WRONGPASS/),
    });
    expect(JSON.stringify([error.message, error.stack, error.cause])).not.toContain('hush');
  });

  it('a reply that is lost after the write leaves one record: ioredis sends the append again, and it answers as before', async () => {
    const proxy = await TcpProxy.start(bench.server.port);
    try {
      const { taskId, owner } = await beginHeld(bench.open({ redis: proxy.url }));
      const lost = proxy.loseReplyTo('written once');
      const sent = [owner.append(note('written once')), owner.append(note('and pipelined behind'))];
      await lost;
      await Promise.all(sent);
      await owner.append(note('goes on'));
      expect(await seqsOf(bench.open().read(taskId))).toEqual(upTo(4));
    } finally {
      await proxy.close();
    }
  });

  it('a lease whose reply was lost is given to the same call, not refused as BUSY', async () => {
    const proxy = await TcpProxy.start(bench.server.port);
    try {
      const store = bench.open({ redis: proxy.url });
      await store.create('lost-lease', startRecord('lost-lease'));
      const lost = proxy.loseReplyTo('owner-of-lost-lease');
      const acquired = store.acquire('lost-lease', 'owner-of-lost-lease', 30_000);
      await lost;
      expect(await acquired).toMatchObject({ seq: 1 });
      await refuses('BUSY', () => store.acquire('lost-lease', 'owner-of-lost-lease', 30_000));
    } finally {
      await proxy.close();
    }
  });

  it('scripts that Redis forgot are loaded again; a pipelined append is refused for now, and fits when it is sent again', async () => {
    const { taskId, owner } = await beginHeld(bench.open());
    bench.server.cli('SCRIPT', 'FLUSH');
    const batches = [owner.stamp(note('one')), owner.stamp(note('two')), owner.stamp(note('three'))];
    const outcomes = await Promise.allSettled(batches.map((records) => owner.send(records, false)));
    for (const outcome of outcomes) {
      await refusesForNow('UNAVAILABLE', () =>
        outcome.status === 'rejected' ? Promise.reject(outcome.reason) : undefined,
      );
    }
    await Promise.all(batches.map((records) => owner.send(records)));
    expect(await seqsOf(bench.open().read(taskId))).toEqual(upTo(4));
  });

  it('out of memory an append is FULL and leaves nothing, but a turn can end and a lease be given back', async () => {
    const store = bench.open();
    const [one, other] = [await beginHeld(store), await beginHeld(store)];
    const records = one.owner.stamp(note('too much'), note('and more'));
    bench.server.cli('CONFIG', 'SET', 'maxmemory', '1');
    try {
      const error = await refusesForNow('FULL', () => one.owner.send(records));
      expect(error.message).toContain('OOM');
      await refusesForNow('FULL', () => store.create('full', startRecord('full')));
      expect(await seqsOf(store.read(one.taskId))).toEqual([1]);
      expect(await store.load('full')).toBeNull();
      await other.owner.append(done);
      expect(await seqsOf(store.read(other.taskId))).toEqual([1, 2]);
      await store.renew(one.owner.lease);
      await store.release(one.owner.lease);
      await refuses('FENCED', () => store.renew(one.owner.lease));
      await store.delete(other.taskId);
    } finally {
      bench.server.cli('CONFIG', 'SET', 'maxmemory', '0');
    }
    const lease = await store.acquire(one.taskId, 'owner-b', 30_000);
    await store.append(lease, [{ ...note('room again'), seq: 2, epoch: lease.epoch, at: 1 }], {
      status: 'working',
      barrier: true,
    });
    expect(await seqsOf(store.read(one.taskId))).toEqual([1, 2]);
  });

  it('a read-only replica is UNAVAILABLE for now, and the same store goes on once it is the primary', async () => {
    const primary = await startRedis();
    const store = bench.open();
    const { taskId, owner } = await beginHeld(store);
    const records = owner.stamp(note('to a replica'));
    try {
      // Its primary never lets it synchronise, so it keeps its data and only refuses writes.
      primary.signal('SIGSTOP');
      bench.server.cli('REPLICAOF', '127.0.0.1', String(primary.port));
      const error = await refusesForNow('UNAVAILABLE', () => owner.send(records));
      expect(error.message).toContain('READONLY');
    } finally {
      bench.server.cli('REPLICAOF', 'NO', 'ONE');
      await primary.remove();
    }
    await owner.send(records);
    expect(await seqsOf(store.read(taskId))).toEqual([1, 2]);
  });
});

describeRedis('RedisStateStore when Redis restarts', () => {
  it('without persistence a task is NOT_FOUND, for its owner and for whoever resumes it', async () => {
    const redis = await startRedis({ config: ['appendonly no', 'save ""'] });
    const store = new RedisStateStore({ redis: redis.url });
    try {
      const { taskId, owner } = await beginHeld(store);
      const follower = watch(store.follow(taskId));
      await follower.until('the first record', ({ values }) => values.length === 1);
      await redis.end('SIGKILL');
      await redis.start();
      const records = owner.stamp(note('nowhere'));
      await refuses('NOT_FOUND', () => sentUntilAnswered(() => owner.send(records)));
      const resumed = AgentLoop.resume(taskId, { agentId: 'a', llmProvider: scriptedLLM([]), taskStateStore: store });
      await expect(resumed.result()).rejects.toMatchObject({ code: 'NOT_FOUND' });
      await follower.until('an error', (reading) => reading.error !== undefined);
      expect(follower.error).toMatchObject({ code: 'NOT_FOUND' });
      expect(await store.list()).toEqual([]);
    } finally {
      await store.close();
      await redis.remove();
    }
  });

  it('in mid-turn no tool starts while it is gone, the turn ends normally, and a reader misses nothing', async () => {
    const redis = await startRedis({ config: ['appendonly yes', 'appendfsync always', 'save ""'] });
    const store = new RedisStateStore({ redis: redis.url });
    const ran: string[] = [];
    const gone = gate();
    const tools = [
      plainTool('stop', async () => {
        ran.push('stop');
        await redis.end('SIGKILL');
        gone.open();
      }),
      plainTool('next', () => ran.push('next')),
    ];
    try {
      const loop = new AgentLoop({
        agentId: 'a',
        llmProvider: scriptedLLM([
          { toolCalls: [{ name: 'stop' }] },
          { toolCalls: [{ name: 'next' }] },
          { text: 'Done.' },
        ]),
        toolProviders: [new LocalToolProvider(tools)],
        taskStateStore: store,
      });
      const turn = loop.startTurn([{ role: 'user', content: 'Go' }]);
      turn.subscribe();
      await gone.pass();
      await refusesForNow('UNAVAILABLE', () => store.read(turn.taskId));
      expect(ran).toEqual(['stop']);
      await redis.start();
      const follower = watch(store.follow(turn.taskId));
      expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Done.' });
      await turn.settled;
      expect(ran).toEqual(['stop', 'next']);
      await follower.until('the end', ({ completed }) => completed);
      const records = await store.read(turn.taskId);
      expect(follower.values).toEqual(records.map((record) => ({ type: 'record', record })));
      expect(records.map(({ seq }) => seq)).toEqual(upTo(records.length));
    } finally {
      await store.close();
      await redis.remove();
    }
  });

  it('a reader rides it out, and shows each record once', async () => {
    const redis = await startRedis({ config: ['appendonly yes', 'appendfsync always', 'save ""'] });
    const store = new RedisStateStore({ redis: redis.url });
    try {
      const { taskId, owner } = await beginHeld(store);
      const follower = watch(store.follow(taskId));
      const listener = watch(store.commands(taskId));
      await owner.append(note('before'));
      await follower.until('two records', ({ values }) => values.length === 2);
      await redis.end('SIGKILL');
      await redis.start();
      const after = owner.stamp(note('after'), done);
      await sentUntilAnswered(() => store.post(taskId, { id: 'c', type: 'pause' }));
      await sentUntilAnswered(() => owner.send(after));
      await follower.until('the end', ({ completed }) => completed);
      expect(follower.values).toHaveLength(4);
      await listener.until('the command', ({ values }) => values.length === 1);
      listener.stop();
    } finally {
      await store.close();
      await redis.remove();
    }
  });
});

function plainTool(name: string, execute: () => unknown) {
  return tool({ name, description: name, parameters: { type: 'object' }, execute });
}

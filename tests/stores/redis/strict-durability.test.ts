import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { noteRecord as note, refuses, seqsOf, upTo } from 'millrace/internals';
import { describeRedis } from './describe-redis.ts';
import { beginHeld, RedisBench } from './redis-bench.ts';
import { type RedisProcess, startRedis } from './redis-process.ts';

describeRedis('strict durability of RedisStateStore', () => {
  const bench = new RedisBench();
  let replica: RedisProcess;
  beforeAll(async () => {
    replica = await startRedis({ config: [`replicaof 127.0.0.1 ${bench.server.port}`] });
    await bench.untilReplicas(1);
  });
  afterAll(() => replica.remove());

  const strict = { durability: 'strict', replicaTimeoutMs: 5_000 } as const;
  const impatient = { ...strict, replicaTimeoutMs: 50 } as const;

  it('a barrier is answered when the replica has the record; pipelined appends keep their order', async () => {
    const { taskId, owner } = await beginHeld(bench.open(strict));
    const sent = upTo(30).map((number) => owner.send(owner.stamp(note(number)), number % 3 === 0));
    await Promise.all(sent);
    expect(replica.cli('XLEN', bench.key(taskId, 'j'))).toBe('31');
    expect(await seqsOf(bench.open().read(taskId))).toEqual(upTo(31));
  });

  it('without its replica a barrier is UNAVAILABLE for now; sent again once it is back, it is one record and confirmed', async () => {
    const { taskId, owner } = await beginHeld(bench.open(impatient));
    const records = owner.stamp(note('to confirm'));
    replica.signal('SIGSTOP');
    try {
      const error = await refuses('UNAVAILABLE', () => owner.send(records));
      expect(error.retryable).toBe(true);
      expect(error.message).toContain('0 of 1 replicas confirmed');
      // What was applied before is confirmed anew, also by another connection, not waved through.
      const again = bench.open(impatient);
      await refuses('UNAVAILABLE', () => again.append(owner.lease, records, { status: 'working', barrier: true }));
      await owner.send(owner.stamp(note('no barrier')), false);
    } finally {
      replica.signal('SIGCONT');
    }
    await bench.open(strict).append(owner.lease, records, { status: 'working', barrier: true });
    expect(replica.cli('XLEN', bench.key(taskId, 'j'))).toBe('3');
  });

  it('what the script refuses stays refused', async () => {
    const { owner } = await beginHeld(bench.open(strict));
    await refuses('REWOUND', () => owner.send([owner.stampAt(9, note('gap'))]));
  });

  it('takes a client of ioredis, and leaves it open', async () => {
    const client = new Redis(bench.server.url);
    try {
      const store = bench.open({ redis: client, ...strict });
      const { taskId, owner } = await beginHeld(store);
      await owner.append(note('through the given client'));
      await store.close();
      await refuses('UNAVAILABLE', () => store.read(taskId));
      expect(await client.xlen(bench.key(taskId, 'j'))).toBe(2);
    } finally {
      client.disconnect();
    }
  });
});

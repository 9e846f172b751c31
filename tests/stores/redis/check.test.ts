import { expect, it } from '@jest/globals';
import type { RedisStateStoreOptions } from 'millrace/redis';
import type { StoreCheck } from 'millrace/types';
import { describeRedis } from './describe-redis.ts';
import { RedisBench } from './redis-bench.ts';
import { startRedis } from './redis-process.ts';

describeRedis('RedisStateStore.check', () => {
  const bench = new RedisBench();

  /** What it says while the server is configured so. */
  async function checked(
    config: readonly (readonly [name: string, value: string])[],
    options: Partial<RedisStateStoreOptions> = {},
  ): Promise<StoreCheck> {
    const { server } = bench;
    const before = config.map(([name]) => [name, server.cli('CONFIG', 'GET', name).split('\n')[1] ?? ''] as const);
    for (const [name, value] of config) server.cli('CONFIG', 'SET', name, value);
    try {
      return await bench.open(options).check();
    } finally {
      for (const [name, value] of before) server.cli('CONFIG', 'SET', name, value);
    }
  }

  it('is content with a primary that keeps an append-only file and evicts nothing', async () => {
    expect(await checked([])).toEqual({ ok: true, warnings: [] });
  });

  it.each(['allkeys-lru', 'volatile-ttl'])('refuses the eviction policy %s, and says the cure', async (policy) => {
    expect(await checked([['maxmemory-policy', policy]])).toEqual({
      ok: false,
      warnings: [
        `maxmemory-policy is ${policy}, so Redis may evict the journal of a running turn; set it to noeviction.`,
      ],
    });
  });

  it('refuses a server without an append-only file', async () => {
    expect(await checked([['appendonly', 'no']])).toEqual({
      ok: false,
      warnings: ['appendonly is off, so a restart of Redis loses turns; set appendonly to yes.'],
    });
  });

  it('warns of a file that is never forced to the disk, and strict durability without replicas wants it always', async () => {
    expect(await checked([['appendfsync', 'no']])).toEqual({
      ok: true,
      warnings: [expect.stringContaining('set it to everysec or always')],
    });
    const strict = { durability: 'strict', replicas: 0 } as const;
    expect(await checked([['appendfsync', 'everysec']], strict)).toEqual({
      ok: false,
      warnings: ['appendfsync is everysec, strict durability without replicas needs always; set it.'],
    });
    expect(await checked([['appendfsync', 'always']], strict)).toEqual({ ok: true, warnings: [] });
  });

  it('tells a replica from a primary, asks for min-replicas-to-write, and counts the replicas that strict durability needs', async () => {
    const replica = await startRedis({ config: ['appendonly yes', `replicaof 127.0.0.1 ${bench.server.port}`] });
    try {
      await bench.untilReplicas(1);
      expect(await bench.open({ redis: replica.url }).check()).toMatchObject({
        ok: false,
        warnings: ['This Redis is a read-only replica; connect to its primary, or through Sentinel.'],
      });
      expect(await checked([])).toEqual({
        ok: true,
        warnings: [expect.stringMatching(/^min-replicas-to-write is 0, .*set it to 1\.$/)],
      });
      expect(await checked([['min-replicas-to-write', '1']])).toEqual({ ok: true, warnings: [] });
      expect(await checked([], { durability: 'strict' })).toEqual({ ok: true, warnings: [] });
      expect(await checked([], { durability: 'strict', replicas: 2 })).toEqual({
        ok: false,
        warnings: ['1 replicas are connected, strict durability waits for 2; add replicas.'],
      });
    } finally {
      await replica.remove();
    }
  });
});

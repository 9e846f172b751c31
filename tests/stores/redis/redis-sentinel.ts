import { type RedisProcess, startRedis } from './redis-process.ts';

/** A primary and its replica, watched by a Sentinel that makes the replica the primary when that one is gone for half a second. */
export interface WatchedRedis {
  readonly primary: RedisProcess;
  readonly replica: RedisProcess;
  /** Options of an ioredis client that asks the Sentinel. */
  readonly options: { readonly sentinels: { host: string; port: number }[]; readonly name: string };
  remove(): Promise<void>;
}

export async function startWatched(config: readonly string[] = []): Promise<WatchedRedis> {
  const primary = await startRedis({ config });
  const replica = await startRedis({ config: [...config, `replicaof 127.0.0.1 ${primary.port}`] });
  const sentinel = await startRedis({
    program: 'redis-sentinel',
    config: [
      `sentinel monitor journal 127.0.0.1 ${primary.port} 1`,
      'sentinel down-after-milliseconds journal 500',
      'sentinel failover-timeout journal 2000',
    ],
  });
  const deadline = performance.now() + 15_000;
  while (!sentinel.cli('SENTINEL', 'REPLICAS', 'journal').includes('master-link-status\nok')) {
    if (performance.now() > deadline) throw new Error('Sentinel did not find the replica.');
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return {
    primary,
    replica,
    options: { sentinels: [{ host: '127.0.0.1', port: sentinel.port }], name: 'journal' },
    remove: async () => {
      await Promise.all([sentinel, primary, replica].map((process) => process.remove()));
    },
  };
}

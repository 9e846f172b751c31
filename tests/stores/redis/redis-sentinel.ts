import { eventually } from '../../eventually.ts';
import { type RedisProcess, startRedis } from './redis-process.ts';

/** A primary and its replica, watched by a Sentinel that makes the replica the primary when that one is gone for half a second. */
export interface WatchedRedis {
  readonly primary: RedisProcess;
  readonly replica: RedisProcess;
  /** Options of an ioredis client that asks the Sentinel. */
  readonly options: { readonly sentinels: { host: string; port: number }[]; readonly name: string };
  /** Waits until the replica is the primary. */
  promoted(): Promise<void>;
  remove(): Promise<void>;
}

export async function startWatched(config: readonly string[] = []): Promise<WatchedRedis> {
  const started: RedisProcess[] = [];
  const remove = async () => {
    await Promise.all(started.map((process) => process.remove()));
  };
  try {
    const primary = await startRedis({ config });
    started.push(primary);
    const replica = await startRedis({ config: [...config, `replicaof 127.0.0.1 ${primary.port}`] });
    started.push(replica);
    const sentinel = await startRedis({
      program: 'redis-sentinel',
      config: [
        `sentinel monitor journal 127.0.0.1 ${primary.port} 1`,
        'sentinel down-after-milliseconds journal 500',
        'sentinel failover-timeout journal 2000',
      ],
    });
    started.push(sentinel);
    await eventually(() => sentinel.cli('SENTINEL', 'REPLICAS', 'journal').includes('master-link-status\nok'));
    return {
      primary,
      replica,
      options: { sentinels: [{ host: '127.0.0.1', port: sentinel.port }], name: 'journal' },
      // Sentinel ends the connections of clients with the promotion; it is asked, as it does not end its own.
      promoted: () =>
        eventually(() => {
          const [, port] = sentinel.cli('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'journal').split('\n');
          return Number(port) === replica.port;
        }),
      remove,
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

import { Cluster } from 'ioredis';
import { type RedisProcess, startRedis } from './redis-process.ts';

/** Three primaries of our own. */
export interface RedisCluster {
  readonly nodes: readonly RedisProcess[];
  /** A client of the whole; whoever opens it ends it. */
  connect(): Cluster;
  remove(): Promise<void>;
}

export async function startCluster(): Promise<RedisCluster> {
  const config = ['appendonly yes', 'save ""', 'cluster-enabled yes', 'cluster-node-timeout 2000'];
  const nodes = await Promise.all([1, 2, 3].map(() => startRedis({ config })));
  const addresses = nodes.map(({ port }) => `127.0.0.1:${port}`);
  const [first] = nodes;
  first?.cli('--cluster', 'create', ...addresses, '--cluster-replicas', '0', '--cluster-yes');
  return {
    nodes,
    connect: () => new Cluster(nodes.map(({ port }) => ({ host: '127.0.0.1', port }))),
    remove: async () => {
      await Promise.all(nodes.map((node) => node.remove()));
    },
  };
}

import { Cluster } from 'ioredis';
import { type RedisProcess, startRedis } from './redis-process.ts';

/** Three primaries of our own. */
export interface RedisCluster {
  readonly nodes: readonly RedisProcess[];
  /** A client of the whole; whoever opens it ends it. */
  connect(): Cluster;
  /** Moves the slot of a key, with all its keys, one by one, from its node to the next. */
  moveSlotOf(key: string): Promise<void>;
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
    moveSlotOf: (key) => moveSlotOf(nodes, key),
    remove: async () => {
      await Promise.all(nodes.map((node) => node.remove()));
    },
  };
}

async function moveSlotOf(nodes: readonly RedisProcess[], key: string): Promise<void> {
  const slot = nodes[0]?.cli('CLUSTER', 'KEYSLOT', key) ?? '';
  const index = nodes.findIndex((node) => node.cli('CLUSTER', 'COUNTKEYSINSLOT', slot) !== '0');
  const [from, to] = [nodes[index], nodes[(index + 1) % nodes.length]];
  if (from === undefined || to === undefined) throw new Error(`No node has keys in slot ${slot}.`);
  const [fromId, toId] = [from.cli('CLUSTER', 'MYID'), to.cli('CLUSTER', 'MYID')];
  await to.cliLater('CLUSTER', 'SETSLOT', slot, 'IMPORTING', fromId);
  await from.cliLater('CLUSTER', 'SETSLOT', slot, 'MIGRATING', toId);
  for (;;) {
    const [one] = (await from.cliLater('CLUSTER', 'GETKEYSINSLOT', slot, '1')).split('\n');
    if (one === undefined || one === '') break;
    const moved = await from.cliLater('MIGRATE', '127.0.0.1', String(to.port), one, '0', '5000');
    // NOKEY: the key was deleted, or its time was over, since the node named it.
    if (moved !== 'OK' && moved !== 'NOKEY') throw new Error(moved);
  }
  for (const node of [to, from, ...nodes]) await node.cliLater('CLUSTER', 'SETSLOT', slot, 'NODE', toId);
}

// Runs the turns that its parent orders, until it has ended them or is killed.
import { AgentLoopError, messageOf } from '../../../src/core/errors.ts';
import { LmdbStateStore } from '../../../src/stores/lmdb/lmdb-state-store.ts';
import { RedisStateStore } from '../../../src/stores/redis/redis-state-store.ts';
import { Random } from '../random.ts';
import { distantStore } from './distant-store.ts';
import { DoomedLife } from './life.ts';
import { mortalStore } from './mortal-store.ts';
import type { Order, Report, StoreAddress } from './order.ts';
import { plannedModel } from './planned-model.ts';
import { drive } from './turn-driver.ts';
import { WorldFile } from './world.ts';
import { worldTools } from './world-tools.ts';

const { pid } = process;
const distance = { delayMs: 8, loss: 0.02 };

function report(message: Report): void {
  process.send?.(message);
}

function openStore(address: StoreAddress): LmdbStateStore | RedisStateStore {
  if (address.type === 'lmdb') return new LmdbStateStore({ path: address.path });
  const { url, strict } = address;
  return new RedisStateStore({ redis: url, ...(strict && { durability: 'strict', replicas: 0 }) });
}

async function carryOut(order: Order): Promise<void> {
  const life = new DoomedLife(order.doom);
  const world = new WorldFile(order.world);
  const store = openStore(order.store);
  const random = new Random(order.seed);
  // Redis has a slow and lossy proxy in front of it already.
  const reached = store instanceof LmdbStateStore ? distantStore(store, random, distance) : store;
  const ofSeed = new Map(order.tasks.map(({ taskId, seed }) => [seed, taskId]));
  const config = {
    agentId: 'worker',
    llmProvider: plannedModel(life, (seed, iteration) => {
      world.note({ type: 'model', task: ofSeed.get(seed) ?? '', iteration, pid, at: Date.now() });
    }),
    toolProviders: [worldTools({ life, world, pid })],
    taskStateStore: mortalStore(reached, life),
    toolConcurrency: 3,
    leaseMs: order.leaseMs,
    enableTracing: false,
  };
  const driver = {
    config,
    persistent: order.persistent,
    onShown: ({ taskId: task }: { readonly taskId: string }, record: string) =>
      world.note({ type: 'shown', task, record, pid }),
    onLost: (
      { taskId }: { readonly taskId: string },
      { code, message }: { code: AgentLoopError['code'] | 'unknown'; message: string },
    ) => report({ type: 'lost', taskId, code, message }),
  };
  const run = async (task: Order['tasks'][number]) =>
    report({ type: 'task', taskId: task.taskId, outcome: await drive(driver, task) });
  await Promise.all(order.tasks.map(run));
  await store.close();
  world.close();
  report({ type: 'idle', reached: life.reached });
}

process.on('message', (order: Order) => {
  carryOut(order).catch((error: unknown) => {
    console.error(AgentLoopError.isInstance(error) ? error.code : '', messageOf(error), error);
    process.exit(1);
  });
});
// A child does not outlive its parent.
process.on('disconnect', () => process.exit());
report({ type: 'ready' });

// Runs the turns that its parent orders, until it has ended them or is killed.
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentLoopError, type MessageStore, type TaskStateStore, type Team } from 'millrace';
import { jsonSchemaChecker, messageOf } from 'millrace/internals';
import { LmdbMessageStore, LmdbStateStore } from 'millrace/lmdb';
import { PostgresMessageStore, PostgresStateStore } from 'millrace/postgres';
import { RedisMessageStore, RedisStateStore } from 'millrace/redis';
import { Random } from '../random.ts';
import { distantStore } from './distant-store.ts';
import { DoomedLife } from './life.ts';
import { mortalStore } from './mortal-store.ts';
import { notedStore } from './noted-store.ts';
import type { Order, Outcome, Report, StoreAddress, Task } from './order.ts';
import { outageStore } from './outage-store.ts';
import { isPrompt } from './plan.ts';
import { plannedModel } from './planned-model.ts';
import { Running } from './running.ts';
import { rootAgentOf, teamId, workloadOf } from './tree.ts';
import { treeAgents } from './tree-agents.ts';
import { driveTree } from './tree-driver.ts';
import { drive } from './turn-driver.ts';
import { WorldFile } from './world.ts';
import { worldTools } from './world-tools.ts';

const { pid } = process;
const distance = { delayMs: 8, loss: 0.02 };

function report(message: Report): void {
  process.send?.(message);
}

function openStore(address: StoreAddress): LmdbStateStore | PostgresStateStore | RedisStateStore {
  if (address.type === 'lmdb') return new LmdbStateStore({ path: address.path });
  if (address.type === 'postgres') return new PostgresStateStore({ postgres: address.url, schema: address.schema });
  const { url, prefix, strict } = address;
  return new RedisStateStore({ redis: url, prefix, ...(strict && { durability: 'strict', replicas: 0 }) });
}

function openMessages(address: StoreAddress): LmdbMessageStore | PostgresMessageStore | RedisMessageStore {
  if (address.type === 'lmdb') return new LmdbMessageStore({ path: address.path });
  if (address.type === 'postgres') return new PostgresMessageStore({ postgres: address.url, schema: address.schema });
  return new RedisMessageStore({ redis: address.url, prefix: address.prefix });
}

async function carryOut(order: Order): Promise<void> {
  const life = new DoomedLife(order.doom);
  const world = new WorldFile(order.world);
  const store = openStore(order.store);
  const messageStore = openMessages(order.store);
  if (!store.refersTo(messageStore)) throw new Error('the journals do not refer to the conversations');
  const random = new Random(order.seed);
  // The others have a slow and lossy proxy in front of them already.
  const distant = store instanceof LmdbStateStore ? distantStore(store, random, distance) : store;
  const { outage } = order;
  const reached = outage ? outageStore(distant, outage, () => report({ type: 'outage' })) : distant;
  const own = mortalStore(order.workload === undefined ? reached : notedStore(reached, world, pid), life);
  const onLost = (
    { taskId }: { readonly taskId: string },
    { code, message }: { code: AgentLoopError['code'] | 'unknown'; message: string },
  ) => report({ type: 'lost', taskId, code, message });
  const tools = { life, world, store: own, onLost };
  const drives =
    order.workload === undefined
      ? turnDrive(order, tools)
      : await treeDrive(order, order.workload, { ...tools, messageStore, random });
  // A server works until it is killed.
  if (!drives) return report({ type: 'serving' });
  const run = async (task: Task) => report({ type: 'task', taskId: task.taskId, outcome: await drives(task) });
  await Promise.all(order.tasks.map(run));
  await store.close();
  await messageStore.close();
  world.close();
  report({ type: 'idle', reached: life.reached });
}

interface Tools {
  readonly life: DoomedLife;
  readonly world: WorldFile;
  readonly store: TaskStateStore;
  readonly onLost: (task: Task, outcome: Extract<Outcome, { ended: false }>) => void;
}

function turnDrive(order: Order, { life, world, store, onLost }: Tools): (task: Task) => Promise<Outcome> {
  const ofSeed = new Map(order.tasks.map(({ taskId, seed }) => [seed, taskId]));
  const configOf = (running: Running) => ({
    agentId: 'worker',
    llmProvider: plannedModel(life, (seed, iteration, _, request) => {
      const task = ofSeed.get(seed) ?? '';
      world.note({ type: 'model', task, iteration, pid, at: Date.now() });
      running.beginRequest(task, iteration, request);
    }),
    toolProviders: [worldTools({ life, world, pid, running })],
    taskStateStore: store,
    toolConcurrency: 3,
    leaseMs: order.leaseMs,
    enableTracing: false,
  });
  const driver = {
    configOf,
    persistent: order.persistent,
    onUnstopped: ({ taskId: task }: Task, work: string) => world.note({ type: 'unstopped', task, work, pid }),
    onShown: ({ taskId: task }: { readonly taskId: string }, record: string) =>
      world.note({ type: 'shown', task, record, pid }),
    onLost,
  };
  return (task) => drive(driver, task);
}

interface TreeTools extends Tools {
  readonly messageStore: MessageStore;
  readonly random: Random;
}

async function treeDrive(
  order: Order,
  name: string,
  { life, world, store, messageStore, onLost, random }: TreeTools,
): Promise<((task: Task) => Promise<Outcome>) | undefined> {
  const workload = workloadOf(name);
  const { remote: remoteId, remotePort: port = 0 } = { ...workload, ...order };
  const isServer = order.work === 'serve';
  // Few processes need what A2A needs.
  const { callRemote, serveRemote } = remoteId === undefined ? {} : await import('./remote.ts');
  const remote =
    remoteId === undefined || isServer ? undefined : await callRemote?.(workload, remoteId, { port, store });
  const running = new Running();
  const actor = { life, world, pid, running, store, messageStore, remote };
  const { agents, team } = treeAgents(workload, order.tasks, actor);
  const served = isServer && remoteId !== undefined ? agents.get(remoteId) : undefined;
  if (served) {
    await serveRemote?.(served, port);
    return undefined;
  }
  const root = agents.get(workload.team ? teamId : rootAgentOf(workload));
  if (!root) throw new Error(`The workload ${name} has no agent.`);
  const driver = {
    agents,
    root,
    store,
    messageStore,
    random,
    work: order.work ?? 'run',
    persistent: order.persistent,
    running,
    onShown: (task: string, record: string) => world.note({ type: 'shown', task, record, pid }),
    onUnstopped: (task: string, work: string) => world.note({ type: 'unstopped', task, work, pid }),
    onLost,
  };
  return async (task) => {
    const outcome = await driveTree(driver, task);
    if (team && outcome.ended && outcome.status === 'completed') await noteCurrent(team, messageStore, world, task);
    return outcome;
  };
}

/** Asks who answers next, again while the store does not answer. */
async function noteCurrent(
  team: Team,
  messageStore: MessageStore,
  world: WorldFile,
  { taskId: task }: Task,
): Promise<void> {
  for (;;) {
    try {
      const { id } = await team.currentAgent(task);
      const { messages } = await messageStore.load(task);
      const users = messages.filter(isPrompt).length;
      return world.note({ type: 'current', task, agent: id, users, pid });
    } catch (error) {
      if (!AgentLoopError.isInstance(error) || !error.retryable) throw error;
      await sleep(50);
    }
  }
}

process.on('message', (order: Order) => {
  carryOut(order).catch((error: unknown) => {
    console.error(AgentLoopError.isInstance(error) ? error.code : '', messageOf(error), error);
    process.exit(1);
  });
});
// A child does not outlive its parent.
process.on('disconnect', () => process.exit());
// What the first check of arguments loads takes longer than the check, and is not the time of a turn.
await jsonSchemaChecker({ type: 'object' }, 'tool "none"')({});
report({ type: 'ready' });

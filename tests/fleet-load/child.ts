// A worker, a gateway or an observer of the load in a process of its own. Its parent kills it.
// Argument: the order as JSON.
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentLoopError, agent, type Logger } from 'millrace';
import { turnQueue, worker } from 'millrace/fleet';
import { AgentLoop, isTerminal } from 'millrace/internals';
import { PostgresStateStore } from 'millrace/postgres';
import { RedisStateStore } from 'millrace/redis';
import { filter, firstValueFrom } from 'rxjs';
import type { Life, Moment } from '../crash/workload/life.ts';
import { promptOf } from '../crash/workload/plan.ts';
import { plannedModel } from '../crash/workload/planned-model.ts';
import type { World } from '../crash/workload/world.ts';
import { worldTools } from '../crash/workload/world-tools.ts';
import { Ledger, readLedgers } from './ledger.ts';
import type { Order, Report } from './order.ts';
import { asks, isLongCall, type LoadTurn, loadPlan, seedOf, taskIdOf, turnsOf } from './turns.ts';

const order: Order = JSON.parse(process.argv[2] ?? '{}');
const { role, redis, postgres, name, folder } = order;
const { pid } = process;
const agentId = 'ada';
const submittedAtOnce = 16;
const store =
  postgres === undefined ? new RedisStateStore({ redis, prefix: name }) : new PostgresStateStore({ postgres });
const acquire = store.acquire.bind(store);
const turns = turnsOf(order.turns, order.seed);
const earlier = role === 'worker' ? [] : readLedgers(folder, role);
const ledger = new Ledger(folder, role);
const report = (message: Report) => process.send?.(message);
if (role === 'worker')
  store.acquire = (taskId, ...given) => {
    ledger.note({ type: 'took', task: taskId, pid, at: Date.now() });
    return acquire(taskId, ...given);
  };
const { lockMs = 0 } = order.worker;
const plan = (seed: number) => loadPlan(seed, lockMs);

const lasts = 4;
/** Models take their time; what tools did is on the disk before they continue. */
const life: Life = {
  reach(moment: Moment) {
    if (moment === 'model:called') return sleep(10 + Math.random() * 40);
    return moment === 'tool:started' || moment === 'tool:done' ? ledger.synced() : undefined;
  },
};

/** Tells the parent when a long tool runs. */
const world: World = {
  note(deed) {
    ledger.note(deed);
    if (deed.type === 'start' && isLongCall(seedOf(deed.task), deed.callId, lockMs))
      report({ type: 'long', taskId: deed.task });
  },
  deeds: () => ledger.deeds(),
};

/** Notes each run that a worker tells of. */
const logger: Logger = {
  debug() {},
  info(message, { taskId, outcome } = {}) {
    if (message === 'turn run')
      ledger.note({ type: 'run', task: String(taskId), outcome: String(outcome), at: Date.now() });
  },
  warn() {},
  error: (message, fields) => console.error(message, fields),
};

async function work(): Promise<void> {
  const queue = turnQueue({ connection: redis, store, name });
  const provider = plannedModel(
    life,
    (seed, iteration) => {
      const task = taskIdOf(seed);
      ledger.note({ type: 'model', task, iteration, pid, at: Date.now() });
      if (iteration === lasts) report({ type: 'last', taskId: task });
    },
    plan,
  );
  const toolProviders = [worldTools({ life, world, pid })];
  const ada = agent({ id: agentId, provider, toolProviders, enableTracing: false });
  report({ type: 'ready' });
  for (;;) {
    try {
      return await worker({ queue, agents: [ada], logger, ...order.worker }).run();
    } catch (error) {
      // Redis is away while it starts: a supervisor would start the process again.
      if (!isRetryable(error)) throw error;
      await sleep(200);
    }
  }
}

/** Submits what no gateway before it has; asks again while the queue is away. */
async function submit(): Promise<void> {
  const queue = turnQueue({ connection: redis, store, name });
  const known = new Set(earlier.flatMap((deed) => (deed.type === 'submitted' ? [deed.task] : [])));
  let count = known.size;
  const left = turns.filter(({ taskId }) => !known.has(taskId)).values();
  const answering = turns.filter(({ taskId, seed }) => known.has(taskId) && asks(seed));
  const answers = answering.map(({ taskId }) => answered(taskId, queue));
  const lane = async () => {
    for (const turn of left) {
      await submitted(turn, queue);
      if (asks(turn.seed)) answers.push(answered(turn.taskId, queue));
      report({ type: 'count', count: ++count });
    }
  };
  await Promise.all(Array.from({ length: submittedAtOnce }, lane));
  await Promise.all(answers);
}

/** Answers the question of a turn at the moment when it is recorded, or when the turn suspends. */
async function answered(taskId: string, queue: ReturnType<typeof turnQueue>): Promise<void> {
  // Around the moment when the turn suspends: between the two records are tools that run for some ten milliseconds.
  const isAtOnce = seedOf(taskId) % 20 === 1;
  const delayMs = Math.random() * (isAtOnce ? 60 : 4);
  for (;;) {
    try {
      const records = store.follow(taskId).pipe(
        filter((signal) => signal.type === 'record'),
        filter(({ record: { type } }) => type === 'turn.suspended' || (isAtOnce && type === 'turn.asked')),
      );
      await firstValueFrom(records);
      if (delayMs > 1) await sleep(delayMs);
      if ((await store.read(taskId)).some(({ type }) => type === 'turn.answered')) return;
      await queue.answer(taskId, { '2:1': { approved: true } });
      return ledger.note({ type: 'answered', task: taskId, at: Date.now() });
    } catch (error) {
      // The gateway before this one has answered.
      if (AgentLoopError.isInstance(error) && ['TERMINAL', 'CONFLICT', 'INVALID_INPUT'].includes(error.code)) return;
      if (!isRetryable(error)) throw error;
      await sleep(50);
    }
  }
}

async function submitted({ taskId, seed, tenant }: LoadTurn, queue: ReturnType<typeof turnQueue>): Promise<void> {
  const from = Date.now();
  for (;;) {
    try {
      await queue.start(promptOf(seed), { agentId, taskId, tenant });
      return ledger.note({ type: 'submitted', task: taskId, from, at: Date.now() });
    } catch (error) {
      if (!isRetryable(error)) throw error;
      await sleep(100);
    }
  }
}

/** Observes the first turns, from where the observer before it was killed. */
async function observe(): Promise<void> {
  const cursors = new Map<string, string>();
  const closed = new Set<string>();
  for (const deed of earlier) {
    if (deed.type === 'seen') cursors.set(deed.task, deed.cursor);
    if (deed.type === 'closed') closed.add(deed.task);
  }
  report({ type: 'ready' });
  report({ type: 'count', count: closed.size });
  const open = turns.slice(0, order.observed).filter(({ taskId }) => !closed.has(taskId));
  await Promise.all(
    open.map(async ({ taskId }) => {
      // A stream also ends where the turn suspends: the last one begins when the turn is over.
      for (let isLast = false; ; isLast = await isOver(taskId)) {
        if ((await seenToEnd(taskId, cursors)) && isLast) break;
        await sleep(100);
      }
      ledger.note({ type: 'closed', task: taskId });
      closed.add(taskId);
      report({ type: 'count', count: closed.size });
    }),
  );
}

async function isOver(taskId: string): Promise<boolean> {
  try {
    return (await store.read(taskId)).some(isTerminal);
  } catch (error) {
    if (!isRetryable(error)) throw error;
    return false;
  }
}

/** False where the turn is not there yet, or the store was away. */
function seenToEnd(task: string, cursors: Map<string, string>): Promise<boolean> {
  return new Promise((resolve, reject) => {
    AgentLoop.observe(task, { store, from: cursors.get(task) }).subscribe({
      next({ kind, cursor }) {
        if (cursor === undefined) return;
        ledger.note({ type: 'seen', task, cursor, kind });
        cursors.set(task, cursor);
      },
      error: (error: unknown) => (isRetryable(error) ? resolve(false) : reject(error)),
      complete: () => resolve(true),
    });
  });
}

function isRetryable(error: unknown): boolean {
  if (typeof error !== 'object' || error === null || !('code' in error)) return false;
  return error.code === 'UNAVAILABLE' || error.code === 'NOT_FOUND';
}

let lookedAt = Date.now();
setInterval(() => {
  const at = Date.now();
  const ms = at - lookedAt - 100;
  lookedAt = at;
  if (ms > 500) ledger.note({ type: 'stalled', pid, ms, at });
  const { user, system } = process.cpuUsage();
  report({ type: 'cpu', ms: (user + system) / 1_000 });
}, 100);
process.on('disconnect', () => process.exit());

const roles = { worker: work, gateway: submit, observer: observe };
await roles[role]();

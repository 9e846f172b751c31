// Runs, or goes on with, the turns of every batch that its parent sends, hundreds at once on one store, until it is killed.
import { setTimeout as sleep } from 'node:timers/promises';
import { type AgentLoopConfig, AgentLoopError, type Turn, TurnError } from 'millrace';
import { AgentLoop, messageOf } from 'millrace/internals';
import { RedisStateStore } from 'millrace/redis';
import type { Life, Moment } from '../crash/workload/life.ts';
import type { Task } from '../crash/workload/order.ts';
import { promptOf } from '../crash/workload/plan.ts';
import { plannedModel } from '../crash/workload/planned-model.ts';
import { WorldFile } from '../crash/workload/world.ts';
import { worldTools } from '../crash/workload/world-tools.ts';
import type { Batch, WorkerReport } from './messages.ts';

const [redis = ''] = process.argv.slice(2);
const { pid } = process;
const leaseMs = 2_000;
const store = new RedisStateStore({ redis });

/** Models and tools that take their time. */
const life: Life = {
  reach(moment: Moment) {
    if (moment.startsWith('model:')) return sleep(Math.random() * 300);
    return moment === 'tool:working' ? sleep(Math.random() * 80) : undefined;
  },
};

function report(message: WorkerReport): void {
  process.send?.(message);
}

async function carryOut({ world: path, tasks }: Batch): Promise<void> {
  const world = new WorldFile(path);
  const ofSeed = new Map(tasks.map(({ taskId, seed }) => [seed, taskId]));
  const config: AgentLoopConfig = {
    agentId: 'worker',
    llmProvider: plannedModel(life, (seed, iteration) => {
      world.note({ type: 'model', task: ofSeed.get(seed) ?? '', iteration, pid, at: Date.now() });
    }),
    toolProviders: [worldTools({ life, world, pid })],
    taskStateStore: store,
    leaseMs,
    // As often as workers die, which is not the turn's fault.
    maxResumes: 1_000,
    enableTracing: false,
  };
  await Promise.all(tasks.map((task) => drive(config, task)));
  world.close();
}

/** Until the turn has ended, however often it is lost. */
async function drive(config: AgentLoopConfig, task: Task): Promise<void> {
  const { taskId } = task;
  for (let start = false; ; ) {
    const options = { taskId, detached: true };
    const turn = start
      ? new AgentLoop(config).startTurn(promptOf(task.seed), options)
      : AgentLoop.resume(taskId, config);
    try {
      const status = await statusOf(turn);
      return report({ type: 'ended', taskId, status });
    } catch (error) {
      const code = AgentLoopError.isInstance(error) ? error.code : 'unknown';
      start = code === 'NOT_FOUND';
      if (code !== 'BUSY' && code !== 'NOT_FOUND') report({ type: 'lost', taskId, code, message: messageOf(error) });
      await sleep(50 + Math.random() * 100);
    }
  }
}

async function statusOf(turn: Turn): Promise<string> {
  turn.subscribe({ error: () => {} });
  try {
    return (await turn.result()).status;
  } catch (error) {
    if (error instanceof TurnError) return error.result.status;
    throw error;
  }
}

process.on('message', (batch: Batch) => {
  carryOut(batch).catch((error: unknown) => {
    console.error(error);
    process.exit(1);
  });
});
// A worker does not outlive its parent.
process.on('disconnect', () => process.exit());

setInterval(() => {
  globalThis.gc?.();
  const { heapUsed: heap, rss } = process.memoryUsage();
  report({ type: 'memory', heap, rss });
}, 2_000);

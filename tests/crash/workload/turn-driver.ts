import { setTimeout as sleep } from 'node:timers/promises';
import {
  type AgentLoopConfig,
  AgentLoopError,
  type TaskStateStore,
  type TaskSummary,
  type Turn,
  TurnError,
} from 'millrace';
import { AgentLoop, messageOf } from 'millrace/internals';
import type { Outcome, Task } from './order.ts';
import { promptOf } from './plan.ts';
import { Running } from './running.ts';

export interface Driver {
  /** `running`: of one run of the turn. */
  readonly configOf: (running: Running) => AgentLoopConfig;
  readonly persistent: boolean;
  /** The turn ended or was lost here, and something still ran in it. */
  readonly onUnstopped: (task: Task, work: string) => void;
  /** An event of a record was shown. */
  readonly onShown: (task: Task, record: string) => void;
  readonly onLost: (task: Task, outcome: Extract<Outcome, { ended: false }>) => void;
}

const pauseMs = 15;

/** Runs a turn, or goes on with it, until it has ended or is lost. */
export async function drive(driver: Driver, task: Task): Promise<Outcome> {
  for (;;) {
    const running = new Running();
    const config = driver.configOf(running);
    const outcome = await goOn({ ...driver, config }, task);
    const isBusy = !outcome.ended && outcome.code === 'BUSY';
    if (!isBusy) for (const work of running.unstopped(task.taskId)) driver.onUnstopped(task, work);
    if (outcome.ended) return outcome;
    if (!isBusy) {
      driver.onLost(task, outcome);
      if (!driver.persistent) return outcome;
    }
    await sleep(pauseMs);
  }
}

/** One run of a turn. */
interface Run extends Driver {
  readonly config: AgentLoopConfig;
}

async function goOn(driver: Run, task: Task): Promise<Outcome> {
  const { config } = driver;
  const resumed = await follow(driver, task, AgentLoop.resume(task.taskId, config));
  if (resumed.ended || resumed.code !== 'NOT_FOUND') return resumed;
  const options = { taskId: task.taskId, detached: true };
  const started = follow(driver, task, new AgentLoop(config).startTurn(promptOf(task.seed), options));
  return Promise.race([started, whenOrphaned(driver, task)]);
}

/** Where another was faster, a started turn watches it; should its owner die, somebody has to go on with it. */
async function whenOrphaned({ config: { taskStateStore } }: Run, { taskId }: Task): Promise<Outcome> {
  for (let times = 0; times < 3; ) {
    await sleep(100);
    // No answer says nothing.
    const tasks = await listed(taskStateStore);
    const isOrphan = tasks.some((task) => task.taskId === taskId && !task.held);
    times = isOrphan ? times + 1 : 0;
  }
  return { ended: false, code: 'BUSY', message: 'Its owner is gone.' };
}

async function listed(store: TaskStateStore | undefined): Promise<readonly TaskSummary[]> {
  try {
    return (await store?.list()) ?? [];
  } catch {
    return [];
  }
}

async function follow({ onShown }: Driver, task: Task, turn: Turn): Promise<Outcome> {
  const shown = new Set<string>();
  turn.subscribe({
    next: ({ cursor }) => {
      const record = cursor?.slice(0, cursor.indexOf('.'));
      if (record === undefined || shown.has(record)) return;
      shown.add(record);
      onShown(task, record);
    },
    error: () => {},
  });
  try {
    const { status, text } = await turn.result();
    return { ended: true, status, text };
  } catch (error) {
    if (error instanceof TurnError) return { ended: true, status: error.result.status, text: error.message };
    const code = AgentLoopError.isInstance(error) ? error.code : 'unknown';
    return { ended: false, code, message: messageOf(error) };
  }
}

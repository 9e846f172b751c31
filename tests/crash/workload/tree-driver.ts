import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Agent,
  type AgentEvent,
  AgentLoopError,
  type MessageStore,
  type TaskStateStore,
  type TaskSummary,
  type Turn,
  TurnError,
  type TurnResult,
} from 'millrace';
import { AgentLoop, messageOf } from 'millrace/internals';
import type { Random } from '../random.ts';
import type { Outcome, Task, TreeWork } from './order.ts';
import { earlierTalk, promptOf } from './plan.ts';
import type { Running } from './running.ts';

export interface TreeDriver {
  readonly agents: ReadonlyMap<string, Agent>;
  readonly root: Agent;
  readonly store: TaskStateStore;
  readonly messageStore: MessageStore;
  readonly random: Random;
  readonly work: TreeWork;
  readonly persistent: boolean;
  /** Of the process. */
  readonly running: Running;
  /** An event of a record was shown: of the turn itself, or of one below it. */
  readonly onShown: (taskId: string, record: string) => void;
  /** The tree ended or was lost here, and something still ran in it. */
  readonly onUnstopped: (taskId: string, work: string) => void;
  readonly onLost: (task: Task, outcome: Extract<Outcome, { ended: false }>) => void;
}

const pauseMs = 30;

/** Does with a tree what there is to do, until the turn at the top has ended or is lost. */
export async function driveTree(driver: TreeDriver, task: Task): Promise<Outcome> {
  for (;;) {
    const outcome = await attempt(driver, task);
    noteUnstopped(driver, task, outcome);
    const isAsked = outcome.ended && outcome.status === 'input-required';
    if (outcome.ended && (!isAsked || driver.work === 'run-until-asked')) return outcome;
    if (!outcome.ended && outcome.code !== 'BUSY') {
      driver.onLost(task, outcome);
      if (!driver.persistent) return outcome;
    }
    await sleep(pauseMs);
  }
}

/** Who sweeps may have another run of the tree beside this one. */
function noteUnstopped({ running, work, onUnstopped }: TreeDriver, { taskId }: Task, outcome: Outcome): void {
  if (work === 'sweep' || (!outcome.ended && outcome.code === 'BUSY')) return;
  for (const left of running.unstopped(taskId)) onUnstopped(taskId, left);
}

async function attempt(driver: TreeDriver, task: Task): Promise<Outcome> {
  const { root, random, store, work } = driver;
  const { taskId } = task;
  if (work === 'cancel') return cancel(driver, task);
  const start = () => started(driver, task);
  if (work === 'sweep') {
    await sweep(driver);
    const found = await store.load(taskId);
    if (!found) return start();
    if (!isOver(found.status)) return { ended: false, code: 'BUSY', message: 'It is not over.' };
  }
  if (work === 'watch' || random.chance(0.4)) return start();
  const onBusy = random.chance(0.5) ? 'wait' : 'fail';
  const resumed = await outcomeOf(driver, taskId, root.resume(taskId, { detached: true, onBusy }));
  return resumed.ended || resumed.code !== 'NOT_FOUND' ? resumed : start();
}

/** Tasks before which this process has stored the earlier turn. */
const talked = new Set<string>();

/** Behind an earlier turn of the conversation, whose messages are stored once, whoever starts the turn. */
async function started(driver: TreeDriver, { taskId, seed }: Task): Promise<Outcome> {
  try {
    if (!talked.has(taskId)) await driver.messageStore.append(taskId, `${taskId}-earlier`, earlierTalk);
    talked.add(taskId);
  } catch (error) {
    return lossOf(error);
  }
  const turn = driver.root.startTurn(promptOf(seed), { taskId, contextId: taskId, detached: true });
  return outcomeOf(driver, taskId, turn);
}

async function cancel({ store }: TreeDriver, { taskId }: Task): Promise<Outcome> {
  try {
    await AgentLoop.cancel(taskId, { store, reason: 'enough', deadlineMs: 5_000 });
    const found = await store.load(taskId);
    if (found && isOver(found.status)) return { ended: true, status: found.status, text: '' };
    return { ended: false, code: 'BUSY', message: 'It is not over.' };
  } catch (error) {
    return lossOf(error);
  }
}

/** Resumes what nobody runs, as a service does that starts. */
async function sweep({ store, agents }: TreeDriver): Promise<void> {
  const tasks = await store.list({ roots: true, limit: 1_000 });
  const isLeft = ({ held, state }: TaskSummary) => !held && !isOver(state) && state !== 'input-required';
  for (const { taskId, agentId } of tasks.filter(isLeft)) {
    // Somebody else may be faster, and what is lost is found again.
    await agents
      .get(agentId)
      ?.resume(taskId, { detached: true })
      .result()
      .catch(() => {});
  }
}

function isOver(state: string): boolean {
  return state === 'completed' || state === 'failed' || state === 'canceled';
}

async function outcomeOf({ onShown }: TreeDriver, taskId: string, turn: Turn): Promise<Outcome> {
  const shown = new Set<string>();
  const show = (of: string, cursor: string | undefined) => {
    const record = cursor?.slice(0, cursor.indexOf('.'));
    if (record === undefined || shown.has(`${of} ${record}`)) return;
    shown.add(`${of} ${record}`);
    onShown(of, record);
  };
  turn.subscribe({
    next: (event: AgentEvent) =>
      event.kind === 'internal:sub-agent' ? show(event.event.taskId, event.event.cursor) : show(taskId, event.cursor),
    error: () => {},
  });
  try {
    return endOf(await turn.result());
  } catch (error) {
    return error instanceof TurnError ? { ...endOf(error.result), text: error.message } : lossOf(error);
  }
}

function endOf({ status, text, usage }: TurnResult): Extract<Outcome, { ended: true }> {
  return { ended: true, status, text, usedTokens: usage.totalTokens };
}

function lossOf(error: unknown): Extract<Outcome, { ended: false }> {
  const code = AgentLoopError.isInstance(error) ? error.code : 'unknown';
  return { ended: false, code, message: messageOf(error) };
}

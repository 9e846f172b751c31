import { AgentLoopError } from '../../core/errors.ts';
import type { TaskState } from '../../core/events.ts';
import { byStatus, isWithin } from '../context-group.ts';
import type { TaskQuery, TaskSummary } from '../interfaces.ts';
import type { ScriptAnswer } from './script-answer.ts';
import type { ScriptRunner } from './script-runner.ts';
import type { IndexedTask, TaskIndex } from './task-index.ts';
import { taskKeys } from './task-keys.ts';

export interface TaskListDeps {
  readonly index: TaskIndex;
  readonly scripts: ScriptRunner;
  readonly prefix: string;
}

const pageSize = 100;

/** What the heads of tasks say, found through the index. Entries of the index whose task is gone are removed on the way. */
export class TaskList {
  readonly #deps: TaskListDeps;

  constructor(deps: TaskListDeps) {
    this.#deps = deps;
  }

  async list(query: TaskQuery): Promise<readonly TaskSummary[]> {
    const { limit = 50 } = query;
    const found: TaskSummary[] = [];
    for (let offset = 0; found.length < limit; ) {
      const page = await this.#deps.index.page({ ...query, offset, size: pageSize });
      if (page.length === 0) break;
      // Those that are gone were removed from the index, so the next page begins earlier.
      const wanted = query.roots ? page.filter(({ parentTaskId }) => parentTaskId === undefined) : page;
      const summaries = await this.#summaries(wanted);
      offset += page.length - (wanted.length - summaries.length);
      found.push(...summaries.filter((summary) => fits(query, summary)));
    }
    if (query.contextGroup !== undefined) await this.#mend(found);
    return found.slice(0, limit);
  }

  /** Puts tasks of a group in their order: one whose index was not told of its last status stands where it stood before. */
  async #mend(found: TaskSummary[]): Promise<void> {
    const before = [...found];
    found.sort((a, b) => byStatus(placeOf(a), placeOf(b)));
    const moved = found.filter((summary, index) => summary !== before[index]);
    await Promise.all(moved.map((task) => this.#deps.index.tell(task, Date.parse(task.statusAt))));
  }

  /** Called once for each new task: now and then looks whether some tasks of the index are still there. */
  async sweep(): Promise<void> {
    await this.#summaries(await this.#deps.index.sample());
  }

  async #summaries(tasks: readonly IndexedTask[]): Promise<readonly TaskSummary[]> {
    const summaries = await Promise.all(tasks.map((task) => this.#summary(task)));
    return summaries.filter((summary) => summary !== undefined);
  }

  async #summary(task: IndexedTask): Promise<TaskSummary | undefined> {
    const { scripts, prefix, index } = this.#deps;
    const { taskId } = task;
    const { head } = taskKeys(prefix, taskId);
    try {
      return summaryOf(taskId, await scripts.run({ script: 'describe', keys: [head], args: [], subject: { taskId } }));
    } catch (error) {
      if (!AgentLoopError.isInstance(error) || error.code !== 'NOT_FOUND') throw error;
      await index.remove(task);
      return undefined;
    }
  }
}

function fits(query: TaskQuery, { state, contextId, taskId, statusAt }: TaskSummary): boolean {
  if (query.state !== undefined && state !== query.state) return false;
  if (query.contextGroup === undefined) return true;
  if (query.contextId !== undefined && contextId !== query.contextId) return false;
  return isWithin(query, placeOf({ statusAt, taskId }));
}

function placeOf({ statusAt, taskId }: Pick<TaskSummary, 'statusAt' | 'taskId'>) {
  return { statusAt: Date.parse(statusAt), taskId };
}

function summaryOf(taskId: string, answer: ScriptAnswer): TaskSummary {
  const parentTaskId = answer.text(9);
  return {
    taskId,
    contextId: answer.text(1),
    agentId: answer.text(2),
    ...(parentTaskId !== '' && { parentTaskId }),
    state: stateOf(answer.text(3)),
    seq: answer.int(4),
    createdAt: new Date(Number(answer.text(5))).toISOString(),
    updatedAt: new Date(Number(answer.text(6))).toISOString(),
    statusAt: new Date(Number(answer.text(8))).toISOString(),
    held: answer.int(7) === 1,
  };
}

const states: Readonly<Record<TaskState, true>> = {
  submitted: true,
  working: true,
  'input-required': true,
  'auth-required': true,
  completed: true,
  failed: true,
  canceled: true,
  rejected: true,
};

function stateOf(text: string): TaskState {
  if (isState(text)) return text;
  throw new AgentLoopError(
    'SCHEMA',
    `A task has the state "${text}", which this version does not know; update millrace.`,
  );
}

function isState(text: string): text is TaskState {
  return Object.hasOwn(states, text);
}

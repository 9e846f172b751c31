import { AgentLoopError } from '../../core/errors.ts';
import type { TaskState } from '../../core/events.ts';
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

  async list({ state, contextId, limit = 50 }: TaskQuery): Promise<readonly TaskSummary[]> {
    const found: TaskSummary[] = [];
    for (let offset = 0; found.length < limit; ) {
      const page = await this.#deps.index.page(contextId, offset, pageSize);
      if (page.length === 0) break;
      const summaries = await this.#summaries(page);
      offset += summaries.length;
      found.push(...summaries.filter((summary) => state === undefined || summary.state === state));
    }
    return found.slice(0, limit);
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

function summaryOf(taskId: string, answer: ScriptAnswer): TaskSummary {
  return {
    taskId,
    contextId: answer.text(1),
    agentId: answer.text(2),
    state: stateOf(answer.text(3)),
    seq: answer.int(4),
    createdAt: new Date(Number(answer.text(5))).toISOString(),
    updatedAt: new Date(Number(answer.text(6))).toISOString(),
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

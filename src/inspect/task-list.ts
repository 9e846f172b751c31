import {
  AgentLoopError,
  messageOf,
  RecentMap,
  type TaskState,
  type TaskStateStore,
  type TaskSummary,
  textOf,
} from '../core/contracts/index.ts';
import { foldRecords, type JournalRecord, type LoopState } from '../core/journal/index.ts';
import { callCost, dollars, type PriceList } from '../providers/models/model-info.ts';
import type { ShownValues } from './shown-values.ts';
import type { TaskNote, TaskPage, UsageRow } from './wire.ts';

/** How long a page looks for tasks that contain a string before it answers with those it has. Milliseconds. */
const searchMs = 400;
/** Tasks that may come between two pages without one being shown twice. */
const slack = 100;
const mostNotes = 5_000;
const promptLength = 200;

export interface ListQuery {
  readonly state?: TaskState | 'resumable' | undefined;
  /** Only tasks with this text in their ids, their prompt or their error, whatever its case. */
  readonly text?: string | undefined;
  /** Also child turns. */
  readonly children: boolean;
  /** `next` of the page before. */
  readonly after?: string | undefined;
  readonly limit: number;
}

interface TaskListDeps {
  readonly store: TaskStateStore;
  readonly prices: PriceList;
  readonly shown: ShownValues;
}

/** The tasks of a store in pages, the newest first, and what their journals say of them. Memory: 5,000 notes. */
export class TaskList {
  readonly #deps: TaskListDeps;
  readonly #notes = new RecentMap<string, TaskNote>(mostNotes);

  constructor(deps: TaskListDeps) {
    this.#deps = deps;
  }

  /** Reads the heads of the tasks before the page again: their order is that of the store, and it has no other place to begin. */
  async page({ after, limit, text, ...query }: ListQuery): Promise<TaskPage> {
    const [offset, last] = placeIn(after);
    const isSearch = text !== undefined && text !== '';
    const most = isSearch ? Number.MAX_SAFE_INTEGER : offset + limit + slack;
    const all = await this.#listed(query, most);
    const at = last === undefined ? -1 : all.findIndex(({ taskId }, index) => index >= offset - 1 && taskId === last);
    const start = at < 0 ? offset : at + 1;
    const end = isSearch ? all.length : Math.min(all.length, start + limit);
    const tasks: TaskSummary[] = [];
    const until = performance.now() + searchMs;
    let index = start;
    for (; index < end; index++) {
      const task = all[index];
      if (!task) break;
      if (!isSearch || (await this.#has(task, text.toLowerCase()))) tasks.push(task);
      if (tasks.length >= limit || (isSearch && performance.now() > until)) {
        index++;
        break;
      }
    }
    const seen = all[index - 1];
    return { tasks, ...(index < all.length && seen && { next: `${index}:${seen.taskId}` }) };
  }

  async #listed({ state, children }: Pick<ListQuery, 'state' | 'children'>, limit: number) {
    const { store } = this.#deps;
    const roots = !children;
    if (state !== 'resumable') return store.list({ roots, limit, ...(state !== undefined && { state }) });
    const free = await store.list({ runnable: true, roots, limit: Number.MAX_SAFE_INTEGER });
    return [...free].sort((one, other) => other.createdAt.localeCompare(one.createdAt));
  }

  async #has(task: TaskSummary, text: string): Promise<boolean> {
    const has = (...parts: readonly (string | undefined)[]) => parts.some((part) => part?.toLowerCase().includes(text));
    if (has(task.taskId, task.contextId, task.agentId)) return true;
    const { prompt, error } = await this.note(task);
    return has(prompt, error);
  }

  /** The notes of tasks, of those that the store has. */
  async notes(taskIds: readonly string[]): Promise<readonly TaskNote[]> {
    const notes = await Promise.all(
      taskIds.map(async (taskId) => {
        const task = await this.#deps.store.describe(taskId);
        return task ? [await this.note(task)] : [];
      }),
    );
    return notes.flat();
  }

  /** Read once for each new record of the task. */
  async note({ taskId, seq }: TaskSummary): Promise<TaskNote> {
    const known = this.#notes.get(taskId);
    if (known?.seq === seq) return known;
    const note = await this.#readNote(taskId, seq);
    this.#notes.set(taskId, note);
    return note;
  }

  async #readNote(taskId: string, seq: number): Promise<TaskNote> {
    const { store, prices, shown } = this.#deps;
    try {
      const records = await store.read(taskId);
      const state = foldRecords(records);
      const cost = costOf(usageRows(state, prices));
      const [started] = records;
      const forkedFrom = started?.type === 'turn.started' ? started.forkedFrom?.taskId : undefined;
      return {
        taskId,
        seq,
        prompt: shown.line(promptOf(records), promptLength),
        tokens: state.usage.totalTokens,
        ...(cost !== undefined && { cost }),
        ...(forkedFrom !== undefined && { forkedFrom }),
        ...(state.error && { error: shown.line(state.error.message, promptLength) }),
      };
    } catch (error) {
      if (!AgentLoopError.isInstance(error)) throw error;
      return { taskId, seq, prompt: '', tokens: 0, unreadable: shown.line(messageOf(error), promptLength) };
    }
  }
}

/** The last message of the user that the turn began with. */
export function promptOf([started]: readonly JournalRecord[]): string {
  if (started?.type !== 'turn.started') return '';
  return textOf(started.messages.findLast(({ role }) => role === 'user')?.content);
}

/** What a turn used, with what it cost where that is known. */
export function usageRows({ usageBy }: LoopState, prices: PriceList): readonly UsageRow[] {
  return usageBy.map((used) => {
    const cost = callCost(used.usage, { model: used.model, prices });
    return { ...used, ...(cost !== undefined && { cost }) };
  });
}

/** Undefined where a part of it is not known. */
export function costOf(rows: readonly UsageRow[]): number | undefined {
  return rows.reduce<number | undefined>(
    (sum, { cost }) => (sum === undefined || cost === undefined ? undefined : dollars(sum + cost)),
    0,
  );
}

/** How many tasks come before the page, and the last of them. */
function placeIn(after: string | undefined): readonly [offset: number, last: string | undefined] {
  const [, offset, last] = /^(\d{1,9}):(.+)$/.exec(after ?? '') ?? [];
  return [Number(offset ?? 0), last];
}

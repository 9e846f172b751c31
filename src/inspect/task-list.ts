import {
  AgentLoopError,
  type MaybePromise,
  messageOf,
  type TaskState,
  type TaskStateStore,
  type TaskSummary,
  textOf,
} from '../core/contracts/index.ts';
import { foldRecords, type JournalRecord, type LoopState } from '../core/journal/index.ts';
import { callCost, dollars, type PriceList } from '../providers/models/model-info.ts';
import { RecentMap } from '../recent-map.ts';
import type { ShownValues } from './shown-values.ts';
import type { TaskNote, TaskPage, UsageRow } from './wire.ts';

/** How long it looks for tasks that contain a string, or that are forks, before it answers with those it has. Milliseconds. */
export const searchMs = 400;
/** Tasks that are listed at a time where it is not known how many of them are shown. */
const searchSize = 200;
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

  /** Costs its own tasks, however many come before them; with `text` also the tasks that do not contain it, for at most 400 ms. */
  async page({ after, limit, text, ...query }: ListQuery): Promise<TaskPage> {
    const wanted = text?.toLowerCase() ?? '';
    const until = performance.now() + searchMs;
    const tasks: TaskSummary[] = [];
    let last: TaskSummary | undefined;
    for await (const task of this.#from(query, {
      after: placeIn(after),
      size: wanted === '' ? limit + 1 : searchSize,
    })) {
      const isLate = wanted !== '' && performance.now() > until;
      if (last && (tasks.length >= limit || isLate)) return { tasks, next: placeOf(last) };
      last = task;
      if (wanted === '' || (await this.#has(task, wanted))) tasks.push(task);
    }
    return { tasks };
  }

  /** The turns of a context that are newer than one, the newest first. */
  newerThan({ taskId, contextId }: TaskSummary): AsyncGenerator<TaskSummary> {
    const { store } = this.#deps;
    const list = (afterTaskId?: string) => store.list({ contextId, roots: true, afterTaskId, limit: searchSize });
    return before(pages(list, searchSize), taskId);
  }

  async *#from(
    { state, children }: Pick<ListQuery, 'state' | 'children'>,
    { after, size }: { readonly after: Place | undefined; readonly size: number },
  ): AsyncGenerator<TaskSummary> {
    const { store } = this.#deps;
    const roots = !children;
    if (state === 'resumable') {
      const free = await store.list({ runnable: true, roots, limit: Number.MAX_SAFE_INTEGER });
      yield* behind([...free].sort(newestFirst), after);
      return;
    }
    const list = (afterTaskId?: string) => store.list({ roots, state, afterTaskId, limit: size });
    try {
      yield* pages(list, size, after?.taskId);
    } catch (error) {
      if (!after || !AgentLoopError.isInstance(error) || error.code !== 'NOT_FOUND') throw error;
      // The task that the page comes after is gone.
      for await (const task of pages(list, searchSize)) if (task.createdAt <= after.createdAt) yield task;
    }
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

/** Where a page begins: after the last task of the page before. */
type Place = Pick<TaskSummary, 'taskId' | 'createdAt'>;

function placeOf({ createdAt, taskId }: Place): string {
  return `${Date.parse(createdAt)}.${taskId}`;
}

function placeIn(text: string | undefined): Place | undefined {
  const [, at, taskId] = /^(\d{1,15})\.([\w.:-]{1,128})$/.exec(text ?? '') ?? [];
  return taskId === undefined ? undefined : { createdAt: new Date(Number(at)).toISOString(), taskId };
}

function newestFirst(one: TaskSummary, other: TaskSummary): number {
  return other.createdAt.localeCompare(one.createdAt);
}

/** Those after a place, also where its task is no longer among them. */
function behind(tasks: readonly TaskSummary[], place: Place | undefined): readonly TaskSummary[] {
  if (!place) return tasks;
  const at = tasks.findIndex(({ taskId }) => taskId === place.taskId);
  return at < 0 ? tasks.filter(({ createdAt }) => createdAt <= place.createdAt) : tasks.slice(at + 1);
}

/** All tasks that a store lists after one, page after page. */
async function* pages(
  list: (afterTaskId?: string) => MaybePromise<readonly TaskSummary[]>,
  size: number,
  afterTaskId?: string,
): AsyncGenerator<TaskSummary> {
  for (let after = afterTaskId; ; ) {
    const page = await list(after);
    yield* page;
    after = page.at(-1)?.taskId;
    if (page.length < size) return;
  }
}

/** Those before a task. */
async function* before(tasks: AsyncIterable<TaskSummary>, taskId: string): AsyncGenerator<TaskSummary> {
  for await (const task of tasks) {
    if (task.taskId === taskId) return;
    yield task;
  }
}

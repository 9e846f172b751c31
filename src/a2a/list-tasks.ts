import type { ListTasksRequest, ListTasksResponse, Task } from '@a2a-js/sdk';
import { isSuspended, type TaskQuery, type TaskSummary } from '../core/contracts/index.ts';
import { byStatusOfSummaries } from '../stores/task-summary.ts';
import type { CallerTasks } from './caller-tasks.ts';
import { malformed } from './protocol-errors.ts';
import { sizeOfTask } from './received-message.ts';
import { shownContext } from './scope.ts';
import { shownState, stateOf, wireState } from './task-snapshot.ts';

const maxPageSize = 100;
const defaultPageSize = 50;

/** A page with history or artifacts is cut in front of the task with which it would be larger, so that it fits into what clients of gRPC take. */
const maxPageBytes = 3 * 1024 * 1024;

/** So far the tasks of a query are counted. */
const maxTotal = 1_000;

/** What a token says: the last task of the page before, and how many tasks its first page counted. */
interface Position extends Pick<TaskSummary, 'statusAt' | 'taskId'> {
  /** Absent in tokens of older servers. */
  readonly total?: number;
}

/**
 * A page of the caller's tasks, the one whose status changed last first. Journals are read of tasks that run, which may wait for somebody
 * all the same, of tasks that failed, which may have been rejected, and where history or artifacts are asked for: without, a task has its status without a message. Errors: RequestMalformed,
 * naming the parameter.
 */
export async function listTasks(tasks: CallerTasks, params: ListTasksRequest): Promise<ListTasksResponse> {
  const { historyLength = 0 } = params;
  if (!(Number.isSafeInteger(historyLength) && historyLength >= 0))
    throw malformed('historyLength must be a whole number of at least 0.');
  const pageSize = checkedPageSize(params.pageSize);
  const from = params.pageToken === '' ? undefined : positionIn(params.pageToken);
  const after = from && { statusAt: from.statusAt, taskId: from.taskId };
  const { byStatus, ...query } = queryOf(tasks, params);
  const found = await candidates(tasks, { ...query, byStatus: { ...byStatus, after }, limit: pageSize + 1 });
  const { page, count } = await pageOf(tasks, found.slice(0, pageSize), params);
  const last = found.length > count ? found[count - 1] : undefined;
  const counted = async () => (await candidates(tasks, { ...query, byStatus, limit: maxTotal })).length;
  const totalSize = from?.total ?? (from || last ? await counted() : page.length);
  return { tasks: page, nextPageToken: last ? tokenOf({ ...last, total: totalSize }) : '', pageSize, totalSize };
}

interface Page {
  readonly page: Task[];
  /** How many of the tasks that were found it is made of. */
  readonly count: number;
}

/** Whole tasks are read one by one, so that no more than one that does not fit is in memory. */
async function pageOf(tasks: CallerTasks, found: readonly TaskSummary[], params: ListTasksRequest): Promise<Page> {
  const isAsked = ({ status }: Task) => params.status === 0 || status?.state === params.status;
  if (!asksForWhole(params)) {
    const shown = await Promise.all(found.map((summary) => shownTask(tasks, summary, params)));
    return { page: shown.filter((task) => task !== undefined).filter(isAsked), count: found.length };
  }
  const page: Task[] = [];
  let bytes = 0;
  for (const [count, summary] of found.entries()) {
    const task = await shownTask(tasks, summary, params);
    if (!task || !isAsked(task)) continue;
    bytes += sizeOfTask(task);
    if (bytes > maxPageBytes && page.length > 0) return { page, count };
    page.push(task);
  }
  return { page, count: found.length };
}

function asksForWhole({ historyLength = 0, includeArtifacts = false }: ListTasksRequest): boolean {
  return historyLength > 0 || includeArtifacts;
}

/** What may be in the state that is asked for: a task that waits for somebody while its other calls run counts as one that runs in the store. */
async function candidates(tasks: CallerTasks, query: TaskQuery & { readonly limit: number }): Promise<TaskSummary[]> {
  const { store } = tasks.options;
  const list = (query: TaskQuery) => tasks.ready(() => store.list(query));
  if (query.state === undefined || !isSuspended(query.state)) return [...(await list(query))];
  const both = await Promise.all([list(query), list({ ...query, state: 'working' })]);
  return both.flat().sort(byStatusOfSummaries).slice(0, query.limit);
}

function queryOf({ scope }: CallerTasks, { contextId, status, statusTimestampAfter }: ListTasksRequest) {
  const state = status === 0 ? undefined : stateOf(status);
  if (status !== 0 && state === undefined) throw malformed('status must be a state of a task.');
  const since = Date.parse(statusTimestampAfter ?? '');
  if (statusTimestampAfter && Number.isNaN(since)) throw malformed('statusTimestampAfter must be a time of ISO 8601.');
  return {
    byStatus: {
      group: scope.group,
      ...(statusTimestampAfter && { since: new Date(since).toISOString() }),
    },
    roots: true,
    ...(contextId !== '' && { contextId: scope.contextIn(contextId) }),
    ...(state && { state: state === 'rejected' ? ('failed' as const) : state }),
  };
}

function checkedPageSize(pageSize: number = defaultPageSize): number {
  if (Number.isSafeInteger(pageSize) && pageSize >= 1 && pageSize <= maxPageSize) return pageSize;
  throw malformed(`pageSize must be a whole number from 1 to ${maxPageSize}.`);
}

/** `undefined` for a task that was deleted meanwhile. */
async function shownTask(
  tasks: CallerTasks,
  summary: TaskSummary,
  params: ListTasksRequest,
): Promise<Task | undefined> {
  const { historyLength = 0, includeArtifacts = false } = params;
  const isWhole = asksForWhole(params);
  const { taskId, contextId, state, statusAt } = summary;
  // What the store knows as failed may have been rejected.
  const isOpen = state === 'working' || state === 'failed';
  const view = isWhole || isOpen ? await tasks.read(taskId) : undefined;
  if (isWhole) return view && tasks.shown(view, { historyLength, artifacts: includeArtifacts });
  return {
    id: taskId,
    contextId: shownContext(contextId),
    status: { state: wireState(view ? shownState(view.state) : state), message: undefined, timestamp: statusAt },
    artifacts: [],
    history: [],
    metadata: undefined,
  };
}

function tokenOf({ statusAt, taskId, total }: Position): string {
  return Buffer.from([statusAt, taskId, total].filter((part) => part !== undefined).join(' ')).toString('base64url');
}

/** Errors: RequestMalformed for what is no token of ours. */
function positionIn(token: string): Position {
  const [statusAt = '', taskId = '', total, ...more] = Buffer.from(token, 'base64url').toString().split(' ');
  const position = { statusAt, taskId, ...(total !== undefined && { total: Number(total) }) };
  const isOurs = more.length === 0 && taskId !== '' && !Number.isNaN(Date.parse(statusAt)) && !(Number(total) < 0);
  if (isOurs && tokenOf(position) === token && (position.total ?? 0) <= maxTotal) return position;
  throw malformed('pageToken must be the nextPageToken of the page before.');
}

import {
  AgentLoopError,
  type ChildLink,
  innermostQuestion,
  type TaskStateStore,
  type TaskSummary,
  textOf,
} from '../core/contracts/index.ts';
import { foldRecords, type JournalRecord, type LoopState, openQuestions } from '../core/journal/index.ts';
import type { PriceList } from '../providers/models/model-info.ts';
import { costOf, promptOf, searchMs, type TaskList, usageRows } from './task-list.ts';
import type { ShownQuestion, TaskDetail, TreeNode } from './wire.ts';

/** How many turns of a tree are read for one turn. */
const mostNodes = 200;

interface DetailDeps {
  readonly store: TaskStateStore;
  readonly list: TaskList;
  readonly prices: PriceList;
}

/** What is shown of one turn beside its timeline. */
export async function detailOf(
  { records, summary }: { readonly records: readonly JournalRecord[]; readonly summary: TaskSummary },
  deps: DetailDeps,
): Promise<TaskDetail> {
  const state = foldRecords(records);
  const { turn, outcome, error, usage, iteration, toolCalls, finalMessage } = state;
  const [started] = records;
  const origin = started?.type === 'turn.started' ? started.forkedFrom : undefined;
  const usageBy = usageRows(state, deps.prices);
  const cost = costOf(usageBy);
  const answer = finalMessage ?? textOf(state.lastResponse?.message.content);
  const { parent } = turn;
  const end = state.isComplete ? state.updatedAt : Date.now();
  const isOver = outcome !== undefined;
  const children = await new Tree(deps).below(summary.taskId, records);
  const forks = await forksOf(summary, deps);
  return {
    summary,
    prompt: promptOf(records),
    metadata: turn.metadata,
    settings: { ...turn.settings },
    ...(parent && { parent: { taskId: parent.taskId, callId: parent.callId, rootTaskId: parent.rootTaskId } }),
    ...(origin && { forkedFrom: { taskId: origin.taskId, at: origin.at, isRetry: origin.retry !== undefined } }),
    iteration,
    toolCalls,
    usage,
    usageBy,
    ...(cost !== undefined && { cost }),
    durationMs: Math.max(0, end - turn.createdAt),
    ...(isOver && { reason: outcome.reason }),
    ...(error && { error }),
    ...(answer !== '' && { answer }),
    questions: questionsIn(records, state),
    below: [...children, ...forks.nodes],
    ...(forks.isCut && { forksCut: true as const }),
  };
}

/** The questions of a turn, each with its answer. */
function questionsIn(records: readonly JournalRecord[], state: LoopState): readonly ShownQuestion[] {
  const open = new Map(openQuestions(state).map((question) => [question.id, question]));
  const found = new Map<string, ShownQuestion>();
  for (const record of records) {
    const { seq, at } = record;
    if (record.type === 'turn.asked') {
      const question = open.get(record.question.id) ?? record.question;
      const { kind, toolName, prompt, data } = innermostQuestion(question);
      const asking = { kind, toolName, ...(prompt !== undefined && { prompt }), ...(data !== undefined && { data }) };
      found.set(question.id, { question, asking, seq, at, isOpen: open.has(question.id) && !state.isComplete });
    } else if (record.type === 'turn.answered') {
      const asked = found.get(record.questionId);
      const { answer, command } = record;
      const answered = { seq, at, answer, ...(command !== undefined && { command }) };
      if (asked) found.set(record.questionId, { ...asked, isOpen: false, answered });
    }
  }
  return [...found.values()];
}

interface CalledChild extends ChildLink {
  readonly callId?: string;
}

/** The child turns that the calls of a journal name. */
function childrenIn(records: readonly JournalRecord[]): readonly CalledChild[] {
  const found = new Map<string, CalledChild>();
  for (const record of records) {
    if (record.type === 'tool.intent' && record.child)
      found.set(record.child.taskId, { ...record.child, callId: record.callId });
  }
  return [...found.values()];
}

/** The turns below one, at any depth, 200 at most. */
class Tree {
  readonly #store: TaskStateStore;
  #left = mostNodes;

  constructor({ store }: DetailDeps) {
    this.#store = store;
  }

  async below(taskId: string, records?: readonly JournalRecord[]): Promise<readonly TreeNode[]> {
    const listed = await this.#store.list({ parentTaskId: taskId, limit: this.#left + 1 });
    const called = childrenIn(records ?? (await this.#read(taskId)));
    const known = new Map(listed.map((task) => [task.taskId, task]));
    const named = new Set(called.map((child) => child.taskId));
    // Child turns of hooks are not named by a call.
    const others = listed.filter((task) => !named.has(task.taskId)).reverse();
    const nodes: TreeNode[] = [];
    for (const child of [...called, ...others]) {
      if (this.#left-- <= 0) return nodes;
      nodes.push(await this.#node(child, known.get(child.taskId)));
    }
    return nodes;
  }

  async #node(child: CalledChild, listed: TaskSummary | undefined): Promise<TreeNode> {
    const { taskId, agentId, callId } = child;
    const summary = listed ?? (await this.#store.describe(taskId));
    const below = summary && this.#left > 0 ? await this.below(taskId) : [];
    return {
      taskId,
      agentId: summary?.agentId ?? agentId,
      kind: 'child',
      state: summary?.state ?? 'missing',
      held: summary?.held ?? false,
      ...(callId !== undefined && { callId }),
      below,
      ...(summary && this.#left <= 0 && { cut: true as const }),
    };
  }

  /** A child turn that is damaged is still in the tree. */
  async #read(taskId: string): Promise<readonly JournalRecord[]> {
    try {
      return await this.#store.read(taskId);
    } catch (error) {
      if (AgentLoopError.isInstance(error) && error.code !== 'UNAVAILABLE') return [];
      throw error;
    }
  }
}

interface Forks {
  readonly nodes: readonly TreeNode[];
  /** Whether the context has newer turns that were not looked at: the next view has what this one has read. */
  readonly isCut: boolean;
}

/** The turns of the same context that were forked from this one, which are newer; a fork into another context names its origin itself. */
async function forksOf(origin: TaskSummary, { store, list }: DetailDeps): Promise<Forks> {
  const until = performance.now() + searchMs;
  const nodes: TreeNode[] = [];
  for await (const task of list.newerThan(origin)) {
    if (performance.now() > until) return { nodes: nodes.reverse(), isCut: true };
    const { forkedFrom } = await list.note(task);
    if (forkedFrom !== origin.taskId) continue;
    const [started] = await store.read(task.taskId);
    const from = started?.type === 'turn.started' ? started.forkedFrom : undefined;
    const kind = from?.retry === undefined ? ('fork' as const) : ('retry' as const);
    const { agentId, state, held, taskId } = task;
    nodes.push({ taskId, agentId, kind, state, held, ...(from && { at: from.at }), below: [] });
  }
  return { nodes: nodes.reverse(), isCut: false };
}

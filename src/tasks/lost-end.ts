import {
  AgentLoopError,
  addUsage,
  lessUsage,
  noUsage,
  type TaskStateStore,
  textOf,
  type Usage,
  usageOf,
} from '../core/contracts/index.ts';
import {
  type Commit,
  foldRecords,
  isTerminal,
  type JournalRecord,
  type LoopState,
  type TerminalRecord,
  type ToolResultRecord,
} from '../core/journal/index.ts';
import { listedChildren } from './child-turn.ts';

/**
 * The end of a child turn that its parent turn has recorded, and that the store has lost: the result of a call is recorded after its child turn
 * has ended. `undefined` for a turn that has its end, and for a child turn whose parent turn recorded nothing of it. Errors: those of the store.
 */
export async function lostEndOf(taskId: string, store: TaskStateStore): Promise<TerminalRecord | undefined> {
  const summary = await store.describe(taskId);
  const parent = summary?.parentTaskId === undefined ? undefined : await store.describe(summary.parentTaskId);
  if (!parent) return undefined;
  const child = foldRecords(await store.read(taskId));
  return child.isComplete ? undefined : endIn(await store.read(parent.taskId), child);
}

/** Records of an attempt, whose outcome is open: they show no progress. */
const attempts: ReadonlySet<JournalRecord['type']> = new Set([
  'turn.started',
  'turn.resumed',
  'llm.start',
  'tool.intent',
]);

/**
 * Whether a child turn, at any depth, got further since the first resume of its parent turn that counts towards `maxResumes`: such a parent turn only waits.
 * Errors: those of the store.
 */
export async function childrenAdvanced({ steps, after }: Commit, store: TaskStateStore): Promise<boolean> {
  const first = steps.findLast(({ before }) => before?.resumes === 0);
  return first !== undefined && advancedBelow(after, store, first.record.at);
}

async function advancedBelow(
  { turn, openChildren }: LoopState,
  store: TaskStateStore,
  since: number,
): Promise<boolean> {
  const listed = await listedChildren(store, turn.taskId);
  const children = new Set([...openChildren, ...listed].map(({ taskId }) => taskId));
  for (const taskId of children) {
    const records = await recordsOf(taskId, store);
    if (records.some(({ type, at }) => at >= since && !attempts.has(type))) return true;
    if (records.some(isTerminal) || records.length === 0) continue;
    if (await advancedBelow(foldRecords(records), store, since)) return true;
  }
  return false;
}

/** None of a child turn that was not created yet. */
async function recordsOf(taskId: string, store: TaskStateStore): Promise<readonly JournalRecord[]> {
  try {
    return await store.read(taskId);
  } catch (error) {
    if (AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND') return [];
    throw error;
  }
}

function endIn(records: readonly JournalRecord[], child: LoopState): TerminalRecord | undefined {
  const { taskId, parent } = child.turn;
  const callId = parent?.callId;
  const isIntent = (record: JournalRecord) =>
    record.type === 'tool.intent' && record.callId === callId && record.child?.taskId === taskId;
  if (records.some(isIntent)) {
    const result = records.find((record) => record.type === 'tool.result' && record.callId === callId);
    return result?.type === 'tool.result' ? endOfCall(result, usageLost(records, child, result)) : undefined;
  }
  // A suspended child turn of a hook is recorded as well.
  const isRecorded = records.some((record) => 'branch' in record && record.branch === callId);
  return isRecorded && !child.outcome ? unknownEnd(child) : undefined;
}

/** Calls that stop their child turn: it ended as cancelled. */
const stopped: ReadonlySet<string | undefined> = new Set(['CANCELED', 'TOOL_TIMEOUT', 'TOOL_ABANDONED']);

function endOfCall({ success, content, error }: ToolResultRecord, usage: { readonly usage?: Usage }): TerminalRecord {
  if (success) return { type: 'turn.done', text: textOf(content), reason: 'stop', ...usage };
  const message = error?.message ?? textOf(content);
  if (stopped.has(error?.code)) return { type: 'turn.canceled', reason: message, ...usage };
  return { type: 'turn.failed', code: error?.code ?? 'REWOUND', message, reason: lostReason, ...usage };
}

function unknownEnd({ turn: { parent } }: LoopState): TerminalRecord {
  const message = `The store lost the end of this child turn, which turn "${parent?.taskId}" has recorded; check the durability settings of the store.`;
  return { type: 'turn.failed', code: 'REWOUND', message, reason: lostReason };
}

const lostReason = 'rewound';

/** What the parent turn recorded of the child turn's usage, without the part that the journal of the child turn still has. */
function usageLost(
  records: readonly JournalRecord[],
  { usageBy }: LoopState,
  { callId, usage = noUsage }: ToolResultRecord,
): { readonly usage?: Usage } {
  const recorded = records.reduce((sum, record) => {
    const before = record.type === 'turn.asked' && record.question.callId === callId ? record.usage : undefined;
    return before ? addUsage(sum, before) : sum;
  }, usage);
  const lost = lessUsage(recorded, usageOf(usageBy));
  return lost.totalTokens > 0 ? { usage: lost } : {};
}

import { addUsage, lessUsage, noUsage, type TaskStateStore, textOf, type Usage, usageOf } from '../contracts/index.ts';
import {
  foldRecords,
  type JournalRecord,
  type LoopState,
  type TerminalRecord,
  type ToolResultRecord,
} from '../journal/index.ts';

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

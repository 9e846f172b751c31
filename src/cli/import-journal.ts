import { AgentLoopError, type TaskStateStore } from '../core/contracts/index.ts';
import { foldRecords, type JournalRecord, type LoopState, taskState } from '../core/journal/index.ts';

const leaseMs = 30_000;

/**
 * Writes a whole journal, which was checked, into a store that does not have the task, and resolves with its state. The records keep
 * their order, content and times; their epoch becomes the one of this write, so that whoever resumes the task sees that an open call
 * was started by another process. All records after the first are one append. Errors: `CONFLICT` where the task exists; those of the
 * store: the task is deleted again then.
 */
export async function importJournal(store: TaskStateStore, records: readonly JournalRecord[]): Promise<LoopState> {
  const state = foldRecords(records);
  const [started, ...rest] = records;
  const { taskId } = state.turn;
  if (started?.type !== 'turn.started') throw new AgentLoopError('POISON', 'A journal begins with turn.started.');
  const { created } = await store.create(taskId, { ...started, epoch: 0 });
  if (!created) {
    throw new AgentLoopError('CONFLICT', `task "${taskId}" exists in this store; nothing was imported`, { taskId });
  }
  if (rest.length === 0) return state;
  try {
    return await append(store, state, rest);
  } catch (thrown) {
    const undo = async () => store.delete(taskId);
    await undo().catch(() => {});
    throw thrown;
  }
}

async function append(store: TaskStateStore, state: LoopState, rest: readonly JournalRecord[]): Promise<LoopState> {
  const lease = await store.acquire(state.turn.taskId, `import-${crypto.randomUUID()}`, leaseMs);
  const records = rest.map((record) => ({ ...record, epoch: lease.epoch }));
  await store.append(lease, records, { status: taskState(state), barrier: true });
  await store.release(lease);
  return state;
}

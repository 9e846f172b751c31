import type { TaskStateStore } from '../core/contracts/index.ts';
import type { LoopState } from '../core/journal/index.ts';

/** More turns than a context has. */
const most = 10_000;

/** Whether a process holds a task. */
export async function isHeld(store: TaskStateStore, { turn }: LoopState): Promise<boolean> {
  const tasks = await store.list({ contextId: turn.contextId, limit: most });
  return tasks.find(({ taskId }) => taskId === turn.taskId)?.held ?? false;
}

import type { StreamResponse, Task } from '@a2a-js/sdk';
import type { Clock, TaskStateStore } from '../../../core/contracts/index.ts';
import { foldRecords, observeTask } from '../../../core/journal/index.ts';
import { turnExtension } from '../../extensions.ts';
import { ResponseStream } from '../../response-stream.ts';
import { streamUpdates } from '../../stream-updates.ts';
import { taskOf } from '../../task-snapshot.ts';

export interface TaskSource {
  readonly store: TaskStateStore;
  readonly clock: Clock;
  readonly storeDeadlineMs: number;
}

/** What a task sends from a cursor on, up to its end, whichever process runs it; the task first where there is no cursor. */
export function taskUpdates(
  taskId: string,
  from: string | undefined,
  source: TaskSource,
): AsyncGenerator<StreamResponse> {
  const { store, clock, storeDeadlineMs: ms } = source;
  const streaming = {
    now: () => clock.now(),
    from,
    historyLength: undefined,
    toolEvents: false,
    untilInput: false,
    beyond: 0,
  };
  return new ResponseStream(observeTask(store, taskId, { clock, ms }).pipe(streamUpdates(streaming)));
}

/** The whole task as it stands. Errors: `NOT_FOUND`, `UNAVAILABLE`. */
export async function wholeTask(taskId: string, { store }: TaskSource): Promise<Task> {
  const records = await store.read(taskId);
  return taskOf({ records, state: foldRecords(records) });
}

/** The position in the journal after an update; absent for pieces of text. */
export function cursorOf({ payload }: StreamResponse): string | undefined {
  if (payload === undefined || payload.$case === 'message') return undefined;
  const told: unknown = payload.value.metadata?.[turnExtension];
  const cursor = typeof told === 'object' && told !== null && 'cursor' in told ? told.cursor : undefined;
  return typeof cursor === 'string' ? cursor : undefined;
}

import { AgentLoopError, type TaskStateStore } from '../core/contracts/index.ts';
import type { CommandHost } from './command-host.ts';
import { type TaskPlace, tasksCommand } from './next-commands.ts';
import { atPlace, openStore } from './open-store.ts';
import { lastingStore, type StoreFlags, type StoreSettings, storeSettings } from './store-settings.ts';

export interface StoreRequest {
  readonly flags: StoreFlags;
  readonly host: CommandHost;
  /** Makes a store that is not there. Default false. */
  readonly make?: boolean;
}

/** Opens the store that the flags name for the time of an action. */
export async function withStore(
  { flags, host, make = false }: StoreRequest,
  action: (store: TaskStateStore, settings: StoreSettings) => Promise<void>,
): Promise<void> {
  const { env } = host.terminal;
  const settings = make ? storeSettings(flags, env) : lastingStore(flags, env);
  const { store, close } = await openStore(settings);
  try {
    await action(store, settings);
  } catch (thrown) {
    throw withPlace(atPlace(thrown, settings), { store: settings, flags });
  } finally {
    await close();
  }
}

/** An error that names the store that was looked into, where a task is not in it. */
export function withPlace(thrown: unknown, at: Omit<TaskPlace, 'taskId'>): unknown {
  if (!AgentLoopError.isInstance(thrown) || thrown.code !== 'NOT_FOUND' || thrown.taskId === undefined) return thrown;
  const { taskId } = thrown;
  const message = `there is no task "${taskId}" in ${at.store.place}; "${tasksCommand(at)}" lists the tasks`;
  return new AgentLoopError('NOT_FOUND', message, { taskId, cause: thrown });
}

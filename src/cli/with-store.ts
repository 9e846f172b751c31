import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { AgentLoopError, messageOf, type TaskStateStore, taskIdPattern } from '../core/contracts/index.ts';
import type { JournalRecord } from '../core/journal/index.ts';
import { parseJournal } from '../stores/journal-file.ts';
import type { CommandHost } from './command-host.ts';
import { type TaskPlace, tasksCommand } from './next-commands.ts';
import { atPlace, lastingStore, openStore, type StoreFlags, type StoreSettings, storeSettings } from './store.ts';

interface StoreRequest {
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

/**
 * The records of a task in a store, or of a file where that is the name of one.
 * @throws AgentLoopError of the file or the store.
 */
export async function readJournal(
  task: string,
  { flags, host }: { readonly flags: StoreFlags; readonly host: CommandHost },
): Promise<readonly JournalRecord[]> {
  if (/\.jsonl?$/.test(task) && !existsSync(task)) {
    throw new AgentLoopError('INVALID_INPUT', `${task} cannot be found; name a file of millrace export, or a task`);
  }
  if (existsSync(task) || !taskIdPattern.test(task)) return parseJournal(await contentOf(task), task);
  let records: readonly JournalRecord[] = [];
  await withStore({ flags, host }, async (store) => {
    records = await store.read(task);
  });
  return records;
}

/** The text of a file. */
export async function contentOf(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((thrown: unknown) => {
    throw new AgentLoopError('INVALID_INPUT', `${file} cannot be read: ${messageOf(thrown)}`, { cause: thrown });
  });
}

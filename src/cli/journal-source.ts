import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { AgentLoopError, messageOf, taskIdPattern } from '../core/contracts/index.ts';
import type { JournalRecord } from '../core/journal/index.ts';
import { parseJournal } from '../stores/journal-file.ts';
import type { CommandHost } from './command-host.ts';
import type { StoreFlags } from './store-settings.ts';
import { withStore } from './with-store.ts';

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

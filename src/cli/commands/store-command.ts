import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import { AgentLoopError, messageOf, type TaskStateStore } from '../../core/contracts/index.ts';
import { foldRecords, type JournalRecord, type LoopState, taskState } from '../../core/journal/index.ts';
import { writePrivate } from '../../private-files.ts';
import { formatJournal, parseJournal } from '../../stores/journal-file.ts';
import type { CommandHost } from '../command-host.ts';
import { terminalJson } from '../format.ts';
import { anyLastingStore, type StoreFlags } from '../store.ts';
import { note } from '../terminal.ts';
import { addStoreFlag } from '../turn-flags.ts';
import { contentOf, withStore } from '../with-store.ts';

/** Adds `millrace export` and `millrace import`: journals as files. */
export function addJournalCommands(program: Command, host: CommandHost): void {
  addStoreFlag(
    program
      .command('export')
      .argument('<task>', 'the id of the task')
      .argument('[file]', 'where to write it; must not exist (default: stdout)'),
  )
    .summary('write the journal of a turn to a file')
    .description('Write the journal of a turn as JSON lines. The file contains the whole conversation of the turn.')
    .action((taskId: string, file: string | undefined, flags: StoreFlags) => exportTask(taskId, file, { flags, host }));
  addStoreFlag(program.command('import').argument('[file]', 'a file of millrace export (default: stdin)'))
    .summary('add a journal from a file to a store')
    .description('Add the journal in a file to a store that does not have the task; millrace resume continues it.')
    .action((file: string | undefined, flags: StoreFlags) => importTask(file, { flags, host }));
}

interface Given {
  readonly flags: StoreFlags;
  readonly host: CommandHost;
}

async function exportTask(taskId: string, file: string | undefined, { flags, host }: Given): Promise<void> {
  await withStore({ flags, host }, async (store) => {
    const records = await store.read(taskId);
    const journal = formatJournal(records);
    const { stdout } = host.terminal;
    if (isStandard(file)) return stdout.isTerminal ? stdout.write(terminalJson(journal)) : stdout.writeRaw(journal);
    await writePrivate(file, journal, 'wx').catch((thrown: unknown) => {
      throw new AgentLoopError('INVALID_INPUT', `${file} cannot be written: ${messageOf(thrown)}`, { cause: thrown });
    });
    note(host.terminal, `${records.length} records of task ${taskId} are in ${file}`);
  });
}

/** Without a file, and for `-`, it is stdout or stdin, as it is for `millrace run -`. */
function isStandard(file: string | undefined): file is undefined | '-' {
  return file === undefined || file === '-';
}

async function importTask(file: string | undefined, { flags, host }: Given): Promise<void> {
  const journal = isStandard(file) ? await text(host.stdin) : await contentOf(file);
  const records = parseJournal(journal, isStandard(file) ? 'stdin' : file);
  await withStore({ flags, host, make: true }, async (store, { place, kind }) => {
    if (kind === 'memory') {
      throw new AgentLoopError(
        'INVALID_CONFIG',
        `memory ends with this process; import into --store ${anyLastingStore}`,
      );
    }
    const state = await importJournal(store, records);
    const { taskId } = state.turn;
    note(host.terminal, `task ${taskId} (${taskState(state)}, ${records.length} records) is in ${place}`);
  });
}

const leaseMs = 30_000;

/**
 * Writes a whole journal, which was checked, into a store that does not have the task, and resolves with its state. The records keep
 * their order, content and times; their epoch becomes the one of this write, so that whoever resumes the task sees that an open call
 * was started by another process. All records after the first are one append. Errors: `CONFLICT` where the task exists; those of the
 * store: the task is deleted again then.
 */
async function importJournal(store: TaskStateStore, records: readonly JournalRecord[]): Promise<LoopState> {
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

/** Adds `millrace store migrate`: creates the tables of a store in PostgreSQL, or brings them up to date. */
export function addStoreCommand(program: Command, host: CommandHost): void {
  const command = program.command('store').summary('prepare a store').description('Prepare the store of the turns.');
  addStoreFlag(command.command('migrate'))
    .summary('create or update the tables in PostgreSQL')
    .description('Create or update the tables of a PostgreSQL store. Other stores have no tables.')
    .action((flags: StoreFlags) => migrate(flags, host));
}

async function migrate(flags: StoreFlags, host: CommandHost): Promise<void> {
  await withStore({ flags, host, make: true }, async (store, { place }) => {
    if (!isMigratable(store)) return note(host.terminal, `${place} has no tables; nothing was changed`);
    await store.migrate();
    note(host.terminal, `the tables in ${place} are up to date`);
  });
}

function isMigratable(store: object): store is { migrate(): Promise<void> } {
  return 'migrate' in store && typeof store.migrate === 'function';
}

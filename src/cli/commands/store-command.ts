import type { Command } from 'commander';
import type { CommandHost } from '../command-host.ts';
import { note } from '../notes.ts';
import type { StoreFlags } from '../store-settings.ts';
import { addStoreFlag } from '../turn-flags.ts';
import { withStore } from '../with-store.ts';

/** Adds `millrace store migrate`: creates the tables of a store in PostgreSQL, or brings them up to date. */
export function addStoreCommand(program: Command, host: CommandHost): void {
  const command = program.command('store').summary('prepare a store').description('Prepare the store of the turns.');
  addStoreFlag(command.command('migrate'))
    .summary('create or update the tables in PostgreSQL')
    .description('Create the tables of a store in PostgreSQL, or bring them up to date. Other stores have none.')
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

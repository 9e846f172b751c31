import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { PostgresStateStore } from 'millrace/postgres';
import { type StoreContractHarness, storeContract } from 'millrace/testing';
import type { TaskStateStore } from 'millrace/types';
import { runSuite } from '../../contract/run-contract.ts';
import { type Patch, patched } from '../../crash/parent/child-bundle.ts';
import { describePostgres } from './describe-postgres.ts';
import { type PostgresProcess, startPostgres } from './postgres-process.ts';

interface PlantedBug {
  readonly bug: string;
  readonly patch: Patch;
  /** The title of the case of the contract that has to fail. */
  readonly noticedBy: string;
}

const append =
  'where task_id = $1 and owner = $2 and epoch = $3::int8 and not ended and seq = coalesce($6::int - 1, seq)';
const journal = 'src/stores/postgres/journal.ts';

function inAppend(from: string, to: string): Patch {
  return { file: journal, from: append, to: append.replace(from, to) };
}

// A parameter that a statement does not use has no type, so each bug uses it in a condition that is always met.
const bugs: readonly PlantedBug[] = [
  {
    bug: 'an append does not look at the epoch',
    patch: inAppend('epoch = $3::int8', '$3::int8 is not null'),
    noticedBy: 'T-02 a newer owner of the parent turn gets the lease at once, and the owner before is FENCED',
  },
  {
    bug: 'an append does not look at its lease',
    patch: inAppend('owner = $2 and epoch = $3::int8', '$2::text is not null and $3::int8 is not null'),
    noticedBy: 'an owner that was overtaken is FENCED and writes nothing',
  },
  {
    bug: 'an append does not look at the seq',
    patch: inAppend('seq = coalesce($6::int - 1, seq)', '(true or $6::int is null)'),
    noticedBy: 'records that leave a gap are REWOUND, and so are appends pipelined after them',
  },
  {
    bug: 'an append does not look whether the turn has ended',
    patch: inAppend('not ended and ', ''),
    noticedBy: 'after the end an append, a lease and a command are refused as TERMINAL',
  },
];

describePostgres('bugs planted in PostgresStateStore', () => {
  let postgres: PostgresProcess;
  let folder: string;
  beforeAll(async () => {
    postgres = await startPostgres();
    const store = new PostgresStateStore({ postgres: postgres.url });
    await store.migrate();
    await store.close();
    folder = mkdtempSync(join(tmpdir(), 'millrace-bugs-'));
    cpSync('src', join(folder, 'src'), { recursive: true });
    symlinkSync(join(process.cwd(), 'node_modules'), join(folder, 'node_modules'));
  });
  afterAll(async () => {
    rmSync(folder, { recursive: true, force: true });
    await postgres.remove();
  });

  /** The class, from the sources with one change. */
  async function withBug({ file, ...change }: Patch, name: string): Promise<typeof PostgresStateStore> {
    const path = join(folder, file);
    const source = readFileSync(file, 'utf8');
    writeFileSync(path, patched({ file, ...change }, source));
    const outfile = join(folder, `${name}.mjs`);
    const options = ['--bundle', '--platform=node', '--format=esm', '--packages=external', `--outfile=${outfile}`];
    execFileSync(join('node_modules', '.bin', 'esbuild'), [join(folder, 'src/stores/postgres/index.ts'), ...options], {
      stdio: 'pipe',
    });
    writeFileSync(path, source);
    const { PostgresStateStore: Store } = await import(pathToFileURL(outfile).href);
    return Store;
  }

  it.each(bugs)('F-18 the contract of stores notices that $bug', async ({ bug, patch, noticedBy }) => {
    const Store = await withBug(patch, bug.replaceAll(' ', '-'));
    const stores = new Map<TaskStateStore, PostgresStateStore>();
    const open = () => {
      const store = new Store({ postgres: postgres.url });
      stores.set(store, store);
      return store;
    };
    const harness: StoreContractHarness = {
      name: bug,
      createStore: open,
      createPeer: open,
      dispose: async (store) => stores.get(store)?.close(),
      advance: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
      leaseMs: 300,
    };
    const { passed, failed } = await runSuite(({ describe, it: add }) =>
      storeContract(harness, { describe, it: (title, test) => void (title === noticedBy && add(title, test)) }),
    );
    expect({ passed, failed: [...failed.keys()] }).toEqual({ passed: [], failed: [noticedBy] });
  });
});

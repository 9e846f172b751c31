import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from '@jest/globals';
import { LmdbStateStore } from 'millrace/lmdb';
import ts from 'typescript';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';
import { root } from '../docs/markdown.ts';

// Two thousand journals, and four processes that resume them.

const orphans = 2_000;
const processes = 4;
const folder = temporaryFolder({});
afterAll(() => folder.remove());

/** The code of the recovery loop, as the guide has it. */
function exampleOfGuide(): string {
  const page = readFileSync(join(root, 'docs/durability.md'), 'utf8');
  const blocks = [...page.matchAll(/```ts\n(.*?)```/gs)].map(([, code = '']) => code);
  const found = blocks.find((code) => code.includes('function resumeAbandoned'));
  if (found === undefined) throw new Error('docs/durability.md has no recovery loop.');
  return found;
}

/** The example as a module of a folder in which its packages are found. */
function install(): void {
  const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
  const { outputText } = ts.transpileModule(exampleOfGuide(), { compilerOptions });
  writeFileSync(join(folder.path, 'example.mjs'), outputText);
  copyFileSync(join(root, 'tests/docs/recovery-worker.mjs'), join(folder.path, 'worker.mjs'));
  mkdirSync(join(folder.path, 'node_modules'));
  symlinkSync(root, join(folder.path, 'node_modules', 'millrace'));
  symlinkSync(join(root, 'node_modules', 'rxjs'), join(folder.path, 'node_modules', 'rxjs'));
}

/** Turns whose processes died in their first model call. */
async function leaveTurns(store: LmdbStateStore): Promise<void> {
  for (let index = 0; index < orphans; index++) {
    const taskId = `t-${index}`;
    const stamp = { epoch: 0, at: 1 };
    const messages = [{ role: 'user' as const, content: taskId }];
    const turn = { schema: 3, taskId, contextId: taskId, agentId: 'recovery', messages, settings: {} };
    await store.create(taskId, { type: 'turn.started', ...turn, seq: 1, ...stamp });
    const lease = await store.acquire(taskId, 'dead', 30_000);
    const { epoch } = lease;
    const call = { type: 'llm.start' as const, iteration: 1, attempt: 1, seq: 2, at: 1, epoch };
    await store.append(lease, [call], { status: 'working', barrier: false });
    await store.release(lease);
  }
}

it(`H-37 the recovery loop of the guide resumes ${orphans} abandoned turns in ${processes} processes, each once`, async () => {
  install();
  const store = new LmdbStateStore({ path: join(folder.path, '.millrace') });
  const ledgers: string[] = [];
  try {
    await leaveTurns(store);
    expect(await store.list({ runnable: true, limit: 10_000 })).toHaveLength(orphans);
    const workers: ChildProcess[] = [];
    for (let index = 0; index < processes; index++) {
      const ledger = join(folder.path, `ledger-${index}`);
      writeFileSync(ledger, '');
      ledgers.push(ledger);
      const worker = fork(join(folder.path, 'worker.mjs'), [ledger], { cwd: folder.path, execArgv: [] });
      await once(worker, 'message');
      workers.push(worker);
    }
    const ends = workers.map((worker) => once(worker, 'exit'));
    for (const worker of workers) worker.send('go');
    expect((await Promise.all(ends)).map(([code]) => code)).toEqual(workers.map(() => 0));
    const asked = ledgers.flatMap((ledger) => readFileSync(ledger, 'utf8').trimEnd().split('\n'));
    expect(asked).toHaveLength(orphans);
    expect(new Set(asked).size).toBe(orphans);
    expect(await store.list({ state: 'completed', limit: 10_000 })).toHaveLength(orphans);
  } finally {
    await store.close();
  }
});

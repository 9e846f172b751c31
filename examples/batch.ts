import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { agent } from 'millrace';
import { runBatch } from 'millrace/batch';
import { LiteLLMProvider } from 'millrace/litellm';
import { LmdbStateStore } from 'millrace/lmdb';
import { startModelServer } from 'millrace/testing';
import { lastValueFrom, tap } from 'rxjs';

const count = 60;

/** A file of a million lines would be read in the same way: not further than the window. */
function* prompts() {
  for (let number = 1; number <= count; number++) yield { key: `ticket-${number}`, prompt: `Say hello to ${number}.` };
}

/** In a process of its own, which may be killed. */
async function work(folder: string, baseUrl: string): Promise<void> {
  const store = new LmdbStateStore({ path: join(folder, 'store') });
  const clerk = agent({
    id: 'clerk',
    provider: new LiteLLMProvider({ baseUrl, model: 'demo' }),
    taskStateStore: store,
    leaseMs: 1_000,
  });
  const progress$ = runBatch(prompts(), { agent: clerk, out: join(folder, 'results.jsonl'), concurrency: 5 });
  const last = await lastValueFrom(
    progress$.pipe(
      tap(({ row, completed }) => {
        if (row) process.send?.(completed);
      }),
    ),
  );
  const { state, completed, earlier, usage } = last;
  console.log(`${state}: ${completed} rows, ${earlier} of them of an earlier start, ${usage.totalTokens} tokens`);
  await store.close();
}

const [folder, baseUrl] = process.argv.slice(2);
if (folder !== undefined && baseUrl !== undefined) {
  await work(folder, baseUrl);
  process.disconnect();
} else {
  const model = await startModelServer({ delayMs: 2 });
  const home = mkdtempSync(join(tmpdir(), 'millrace-batch-'));
  const start = (): ChildProcess => fork(fileURLToPath(import.meta.url), [home, model.baseUrl]);

  const first = start();
  first.on('message', (rows) => {
    if (rows === 24) first.kill('SIGKILL');
  });
  await once(first, 'exit');
  console.log('killed at 40 %');
  await once(start(), 'exit');

  const rows = readFileSync(join(home, 'results.jsonl'), 'utf8').trimEnd().split('\n');
  const keys = new Set(rows.map((row): unknown => JSON.parse(row).key));
  console.log(`${rows.length} rows, ${keys.size} keys`);
  console.log(
    `${model.received - count} of ${count} prompts were paid twice: those that ran when the process was killed`,
  );
  rmSync(home, { recursive: true });
  await model.close();
}

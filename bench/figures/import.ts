import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { medianOf } from '../measure.ts';
import { printRows } from '../table.ts';

const repeats = 15;

/** What only a subpath or the first use of a feature may load. */
const laterOnes = ['openai', 'ajv', 'ioredis', 'lmdb', '@opentelemetry/sdk-trace-node', '@opentelemetry/resources'];

/** The checkout is the working folder, where the package knows itself by its name. A fresh process that imports the library, against one that imports nothing. */
export async function measureImport(): Promise<void> {
  const empty: number[] = [];
  const full: number[] = [];
  for (let n = 0; n < repeats; n++) {
    empty.push(await wallTime(''));
    full.push(await wallTime('await import("millrace")'));
  }
  const loaded = await loadedTooEarly();
  printRows("import('millrace') in a fresh process, wall time", [
    { figure: 'empty process', measured: `${medianOf(empty).toFixed(0)} ms` },
    {
      figure: 'with the import',
      measured: `+${(medianOf(full) - medianOf(empty)).toFixed(0)} ms`,
      target: 'target ≤ 100 ms',
    },
    {
      figure: 'loaded before they are needed',
      measured: loaded.length === 0 ? 'none' : loaded.join(', '),
      target: `target: none of ${laterOnes.join(', ')}`,
    },
  ]);
}

async function wallTime(code: string): Promise<number> {
  const start = performance.now();
  await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', code]);
  return performance.now() - start;
}

/** Node traces every module that it loads when told to debug its loader. */
async function loadedTooEarly(): Promise<readonly string[]> {
  const code = 'await import("millrace")';
  const { stderr } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', code], {
    env: { ...process.env, NODE_DEBUG: 'esm,module' },
    maxBuffer: 2 ** 28,
  });
  return laterOnes.filter((name) => stderr.includes(`/node_modules/${name}/`));
}

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { medianOf } from '../measure.ts';
import { printRows } from '../table.ts';

const repeats = 9;
const target = 'target ≤ 40 ms, without ajv';

const kinds = {
  right: { figure: 'five tools with plain schemas', target },
  library: { figure: 'five tools with schemas of zod', target },
  wrong: { figure: 'five tools with plain schemas, wrong arguments', target },
} as const;

/** CPU time of the first turn of a fresh process, behind the import: an agent with five tools that are all called. */
export async function measureFirstTurn(): Promise<void> {
  const rows = [];
  for (const [kind, row] of Object.entries(kinds)) {
    const runs = [];
    for (let n = 0; n < repeats; n++) runs.push(await firstTurn(kind));
    const times = runs.map(({ ms }) => ms);
    const measured = `${medianOf(times).toFixed(1)} ms (least ${Math.min(...times).toFixed(1)})`;
    rows.push({ ...row, measured: `${measured}, ${runs.some(({ ajv }) => ajv) ? 'loads' : 'without'} ajv` });
  }
  printRows('The first turn of a fresh process, CPU time behind the import', rows);
}

async function firstTurn(kind: string): Promise<{ readonly ms: number; readonly ajv: boolean }> {
  const child = fileURLToPath(new URL('first-turn-child.mjs', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [child, kind]);
  return JSON.parse(stdout);
}

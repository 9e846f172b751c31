import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from '@jest/globals';
import { root } from '../docs/markdown.ts';

/** The tables of the bench that have a limit, and what each says of it. */
const limits = [
  [/^One tool an iteration, 10 iterations/, 'target ≤ 10x bare'],
  [/^One tool an iteration, 200 iterations/, 'target ≤ 8x bare'],
  [/^50 tools in one iteration, five at a time/, 'target ≤ 10x bare'],
  [/^20,000 text deltas/, 'target ≤ 2.5x bare'],
  [/^1,000 turns at once/, 'target ≤ 6x bare, ≤ 160 MB'],
] as const;

/** A contender's ratio to the bare loop, as its row has it; NaN where it has none. */
function ratioOf(row: string): number {
  return Number(/ ([\d.]+)x \([^)]*\) bare/.exec(row)?.[1]);
}

// How large a ratio is depends on what else the machine does: that is for people to judge, not for a test.
it('W-22 the bench measures the engine as a ratio to the bare loop and prints each beside its limit', async () => {
  const args = ['bench/run.mjs', 'iterations', 'tools', 'deltas', 'turns'];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root });
  const tables = stdout.split('\n\n');
  for (const [title, limit] of limits) {
    const [, ...rows] =
      tables
        .find((table) => title.test(table))
        ?.trim()
        .split('\n') ?? [];
    const engine = rows.filter((row) => row.trim().startsWith('engine, '));
    expect(engine).toHaveLength(2);
    for (const row of engine) {
      expect(row.endsWith(limit)).toBe(true);
      expect(ratioOf(row)).toBeGreaterThan(1);
    }
    expect(ratioOf(rows.find((row) => row.trim().startsWith('bare+')) ?? '')).toBeGreaterThan(0);
  }
}, 900_000);

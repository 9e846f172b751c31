import { contenders } from '../contenders.ts';
import { race } from '../measure.ts';
import { printRows, ratioRows } from '../table.ts';

const calls = 50;

/** Turns of one iteration with many tool calls, at the default of five at a time, and all at once as the baselines do it. */
export async function measureTools(): Promise<void> {
  for (const [title, toolConcurrency] of [
    ['five at a time (the default)', undefined],
    ['all at once', calls],
  ] as const) {
    const timings = await race(contenders({ iterations: 1, calls }, toolConcurrency));
    printRows(`${calls} tools in one iteration, ${title}, per call`, ratioRows(timings, calls, 'target ≤ 10x bare'));
  }
}

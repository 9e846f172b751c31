import { contenders, names } from '../contenders.ts';
import { race } from '../measure.ts';
import { printRows, type Row, ratioRows } from '../table.ts';

const counts = [10, 50, 200, 1000];

/** What runs once a turn is compiled only behind thousands of turns. */
const firstWarmUpMs = 3_000;

/** Turns with one tool call an iteration. Microseconds are those of one iteration, the closing answer counted as one. */
export async function measureIterations(): Promise<void> {
  const growth: Row[] = [];
  for (const iterations of counts) {
    const timings = await race(contenders({ iterations }), growth.length === 0 ? firstWarmUpMs : undefined);
    const units = iterations + 1;
    printRows(
      `One tool an iteration, ${iterations} iterations, per iteration`,
      ratioRows(timings, units, `target ≤ ${iterations === 10 ? 10 : 8}x bare`),
    );
    const stored = timings.find(({ name }) => name === names.stored)?.median ?? Number.NaN;
    growth.push({ figure: `${iterations} iterations`, measured: `${(stored / units).toFixed(2)} µs` });
  }
  printRows('Growth with the number of iterations (engine, memory journal; target: flat)', growth);
}

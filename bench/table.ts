import { names } from './contenders.ts';
import type { Timing } from './measure.ts';

/** One measured figure. `target`: what it is held against, as words; absent where there is none. */
export interface Row {
  readonly figure: string;
  readonly measured: string;
  readonly target?: string;
}

export function printRows(title: string, rows: readonly Row[]): void {
  const widths = [width(rows, (row) => row.figure), width(rows, (row) => row.measured)] as const;
  console.log(`\n${title}`);
  for (const { figure, measured, target = '' } of rows) {
    console.log(`  ${figure.padEnd(widths[0])}  ${measured.padEnd(widths[1])}  ${target}`.trimEnd());
  }
}

/** One row a contender: time of a run, divided by `units`, and how often that is each baseline's. */
export function ratioRows(timings: readonly Timing[], units: number, target: string): readonly Row[] {
  const [bare, barePlus] = [names.bare, names.barePlus].map((name) => timings.find((each) => each.name === name));
  return timings.map((timing) => {
    const perUnit = `${(timing.median / units).toFixed(2)} µs (least ${(timing.least / units).toFixed(2)})`;
    if (timing === bare) return { figure: timing.name, measured: perUnit };
    const plain = ratio(timing, bare);
    if (timing === barePlus) return { figure: timing.name, measured: `${perUnit}  ${plain} bare` };
    const measured = `${perUnit}  ${plain} bare, ${ratio(timing, barePlus)} bare+`;
    return { figure: timing.name, measured, target };
  });
}

function ratio(timing: Timing, base: Timing | undefined): string {
  if (base === undefined) return '-';
  return `${(timing.median / base.median).toFixed(1)}x (${(timing.least / base.least).toFixed(1)}x)`;
}

function width(rows: readonly Row[], column: (row: Row) => string): number {
  return Math.max(...rows.map((row) => column(row).length));
}

/** A figure with what it is held against. */
export interface Figure {
  readonly figure: string;
  readonly measured: string;
  readonly target: string;
  readonly met: boolean;
}

/** One table, the verdict last. */
export function printFigures(title: string, figures: readonly Figure[]): void {
  const rows = figures.map(({ figure, measured, target, met }) => [figure, measured, target, met ? 'met' : 'MISSED']);
  const widths = [0, 1, 2].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  console.log(`\n${title}`);
  for (const row of rows) console.log(`  ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')}`);
}

/** How often one number is another, held against the most that it may be. */
export function ratioFigure(
  figure: string,
  {
    of,
    to,
    most,
    detail,
  }: { readonly of: number; readonly to: number; readonly most: number; readonly detail: string },
): Figure {
  const ratio = of / to;
  return { figure, measured: `${ratio.toFixed(2)}x (${detail})`, target: `≤ ${most}x`, met: ratio <= most };
}

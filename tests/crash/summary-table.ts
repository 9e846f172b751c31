export interface Row {
  readonly store: string;
  readonly mode: string;
  readonly rounds: number;
  readonly tasks: number;
  readonly kills: number;
  readonly pauses: number;
  readonly outages: number;
  readonly violations: number;
  readonly ms: number;
  /** Whether the time was over before there were enough kills. */
  readonly isShort: boolean;
}

const head = ['store', 'mode', 'rounds', 'turns', 'kills', 'pauses', 'outages', 'violations', 'seconds'];

/** The names of the columns. */
export const headLine = lineOf(head);

/** What came of a campaign. */
export function rowLine({ store, mode, rounds, tasks, kills, pauses, outages, violations, ms, isShort }: Row): string {
  const numbers = [rounds, tasks, kills, pauses, outages, violations, Math.round(ms / 1000)].map(String);
  return lineOf([store, mode, ...numbers, ...(isShort ? ['too few in the time'] : [])]);
}

/** What came of all of them. */
export function sumLine(rows: readonly Row[]): string {
  const sum = (pick: (row: Row) => number) => rows.reduce((total, row) => total + pick(row), 0);
  return rowLine({
    store: 'all',
    mode: '',
    rounds: sum(({ rounds }) => rounds),
    tasks: sum(({ tasks }) => tasks),
    kills: sum(({ kills }) => kills),
    pauses: sum(({ pauses }) => pauses),
    outages: sum(({ outages }) => outages),
    violations: sum(({ violations }) => violations),
    ms: sum(({ ms }) => ms),
    isShort: false,
  });
}

function lineOf(cells: readonly string[]): string {
  return cells.map(aligned).join('  ');
}

function aligned(cell: string, column: number): string {
  return column < 2 ? cell.padEnd(column === 0 ? 5 : 12) : cell.padStart(head[column]?.length ?? 0);
}

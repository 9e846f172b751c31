export interface Row {
  readonly store: string;
  readonly mode: string;
  readonly rounds: number;
  readonly tasks: number;
  readonly kills: number;
  readonly pauses: number;
  readonly violations: number;
  readonly ms: number;
  /** Whether the time was over before there were enough kills. */
  readonly isShort: boolean;
}

const head = ['store', 'mode', 'rounds', 'turns', 'kills', 'pauses', 'violations', 'seconds'];

/** A row for each campaign, and their sum. */
export function summaryTable(rows: readonly Row[]): string {
  const sum = (pick: (row: Row) => number) => rows.reduce((total, row) => total + pick(row), 0);
  const lines = [
    head,
    ...rows.map((row) => [
      row.store,
      row.mode,
      ...[row.rounds, row.tasks, row.kills, row.pauses, row.violations, Math.round(row.ms / 1000)].map(String),
      ...(row.isShort ? ['too few in the time'] : []),
    ]),
    [
      'all',
      '',
      ...[
        sum(({ rounds }) => rounds),
        sum(({ tasks }) => tasks),
        sum(({ kills }) => kills),
        sum(({ pauses }) => pauses),
        sum(({ violations }) => violations),
        Math.round(sum(({ ms }) => ms) / 1000),
      ].map(String),
    ],
  ];
  return lines.map((cells) => cells.map((cell, column) => aligned(cell, column)).join('  ')).join('\n');
}

function aligned(cell: string, column: number): string {
  return column < 2 ? cell.padEnd(8) : cell.padStart(head[column]?.length ?? 0);
}

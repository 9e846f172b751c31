import { readFileSync } from 'node:fs';
import { appendPrivateSync } from '../../files/private-files.ts';

/** A line of the ledger: a tool began to run, or did what it does. */
export interface LedgerEntry {
  readonly tool: string;
  readonly callId: string;
  /** Of the process that it ran in. */
  readonly pid: number;
  readonly what: 'began' | 'finished';
}

/** Adds a line, which is in the file when this returns. */
export function note(file: string, entry: LedgerEntry): void {
  appendPrivateSync(file, `${JSON.stringify(entry)}\n`);
}

/** What stands in the file, in order. */
export function readLedger(file: string): readonly LedgerEntry[] {
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line): LedgerEntry => JSON.parse(line));
}

/** How a call fared in one process. */
export type Fate = 'not run' | 'cut off' | 'finished';

/** A call, in the killed process and in the one that went on. */
export interface LedgerRow {
  readonly tool: string;
  readonly callId: string;
  readonly before: Fate;
  readonly after: Fate;
}

/** The calls of a ledger in the order in which they first began. `killed` is the process that was killed. */
export function ledgerRows(entries: readonly LedgerEntry[], killed: number): readonly LedgerRow[] {
  const calls = new Map(entries.map((entry) => [entry.callId, entry.tool]));
  return [...calls].map(([callId, tool]) => {
    const own = entries.filter((entry) => entry.callId === callId);
    return {
      tool,
      callId,
      before: fateOf(own.filter(({ pid }) => pid === killed)),
      after: fateOf(own.filter(({ pid }) => pid !== killed)),
    };
  });
}

function fateOf(entries: readonly LedgerEntry[]): Fate {
  if (entries.length === 0) return 'not run';
  return entries.some(({ what }) => what === 'finished') ? 'finished' : 'cut off';
}

/** What the two fates of a call come to, in words. */
export function verdictOf({ before, after }: LedgerRow): string {
  if (before === 'finished') return after === 'not run' ? 'recorded, so not repeated' : 'ran twice';
  if (before === 'not run') return 'ran after the kill';
  return after === 'not run' ? 'unsafe to repeat: not run' : 'safe to repeat: run again';
}

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from '@jest/globals';
import { ledgerRows, note, readLedger, verdictOf } from 'millrace/internals';
import { temporaryFolder } from '../tools/temporary-folder.ts';

const folder = temporaryFolder({});
afterAll(() => folder.remove());

it('tells for each call what became of it before and after the kill', () => {
  const file = join(folder.path, 'ledger');
  writeFileSync(file, '');
  const entry = (tool: string, callId: string, pid: number) => {
    note(file, { tool, callId, pid, what: 'began' });
    return () => note(file, { tool, callId, pid, what: 'finished' });
  };
  entry('quick', '1:0', 1)();
  const twice = entry('twice', '1:1', 1);
  entry('again', '1:2', 1);
  entry('once', '1:3', 1);
  twice();
  entry('again', '1:2', 2)();
  entry('twice', '1:1', 2)();
  entry('later', '2:0', 2)();
  const rows = ledgerRows(readLedger(file), 1);
  expect(rows.map((row) => [row.tool, row.before, row.after, verdictOf(row)])).toEqual([
    ['quick', 'finished', 'not run', 'recorded, so not repeated'],
    ['twice', 'finished', 'finished', 'ran twice'],
    ['again', 'cut off', 'finished', 'safe to repeat: run again'],
    ['once', 'cut off', 'not run', 'unsafe to repeat: not run'],
    ['later', 'not run', 'finished', 'ran after the kill'],
  ]);
});

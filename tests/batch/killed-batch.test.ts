import { afterAll, it } from '@jest/globals';
import { ChildPrograms } from '../stores/lmdb/child-programs.ts';
import { temporaryFolder } from './echoing.ts';
import { checkKilledBatch } from './killed-batch.ts';

const children = new ChildPrograms('tests/batch/children');

afterAll(() => children.clear());

it('F-17 a batch whose process is killed at 40 % has every key once after the next start, and pays no finished prompt twice', () =>
  checkKilledBatch({ kind: 'lmdb', place: temporaryFolder(), count: 300, children }));

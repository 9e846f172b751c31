import { afterAll, it } from '@jest/globals';
import { temporaryFolder } from '../batch/echoing.ts';
import { checkKilledBatch } from '../batch/killed-batch.ts';
import { ChildPrograms } from '../stores/lmdb/child-programs.ts';

const children = new ChildPrograms('tests/batch/children');

afterAll(() => children.clear());

it('F-17 a batch of 5,000 prompts that is killed at 40 % has every key once, and pays no finished prompt twice', async () => {
  await checkKilledBatch({ kind: 'lmdb', place: temporaryFolder(), count: 5_000, children });
}, 240_000);

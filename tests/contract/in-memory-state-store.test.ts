import { describe, it } from '@jest/globals';
import { InMemoryStateStore } from 'millrace';
import { asyncStore, storeContract } from 'millrace/testing';
import { testLimitMs } from '../eventually.ts';

const runner = { describe, it };

storeContract(
  {
    name: 'InMemoryStateStore',
    createStore: (options) => new InMemoryStateStore(options),
    deadlineMs: testLimitMs,
  },
  runner,
);

for (const task of ['microtask', 'macrotask'] as const) {
  storeContract(
    {
      name: `asyncStore(InMemoryStateStore), in a later ${task},`,
      createStore: (options) => asyncStore(new InMemoryStateStore(options), { task }),
      deadlineMs: testLimitMs,
    },
    runner,
  );
}

import { describe, it } from '@jest/globals';
import { InMemoryStateStore } from '../../src/stores/memory/in-memory-state-store.ts';
import { asyncStore } from '../../src/testing/async-store.ts';
import { storeContract } from '../../src/testing/store-contract.ts';

const runner = { describe, it };

storeContract({ name: 'InMemoryStateStore', createStore: (options) => new InMemoryStateStore(options) }, runner);

for (const task of ['microtask', 'macrotask'] as const) {
  storeContract(
    {
      name: `asyncStore(InMemoryStateStore), in a later ${task},`,
      createStore: (options) => asyncStore(new InMemoryStateStore(options), { task }),
    },
    runner,
  );
}

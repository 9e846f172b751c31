import { describe, it } from 'node:test';
import { InMemoryStateStore } from '../../src/stores/memory/in-memory-state-store.ts';
import { storeContract } from '../../src/testing/store-contract.ts';

storeContract(
  { name: 'InMemoryStateStore', createStore: (options) => new InMemoryStateStore(options) },
  { describe, it },
);

import { describe, it } from 'node:test';
import { InMemoryStateStore } from 'millrace';
import { storeContract } from 'millrace/testing';

storeContract(
  { name: 'InMemoryStateStore', createStore: (options) => new InMemoryStateStore(options), deadlineMs: 300_000 },
  { describe, it },
);

import type { TaskStateStore } from 'millrace';
import type { RedisStateStore } from 'millrace/redis';
import type { StoreContractHarness } from 'millrace/testing';
import { testLimitMs } from '../../eventually.ts';

export interface ContractServer {
  readonly open: () => RedisStateStore;
  /** Sends one command to Redis, past the store. */
  readonly command: (...args: readonly string[]) => unknown;
}

/** The contract on a real server: leases are short, since they run on its clock, and each store is another client. */
export function contractHarness(name: string, { open, command }: ContractServer): StoreContractHarness {
  const stores = new Map<TaskStateStore, RedisStateStore>();
  const opened = (): RedisStateStore => {
    const store = open();
    stores.set(store, store);
    return store;
  };
  return {
    name,
    createStore: opened,
    createPeer: opened,
    dispose: async (store) => {
      await stores.get(store)?.close();
      stores.delete(store);
    },
    advance: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    leaseMs: 2_000,
    deadlineMs: testLimitMs,
    plantUnknownRecord: async (_, taskId) => {
      await command('XADD', `millrace:{${taskId}}:j`, '2-1', 'r', '{"type":"later.thing","at":1}');
      await command('HSET', `millrace:{${taskId}}:h`, 'seq', '2');
    },
  };
}

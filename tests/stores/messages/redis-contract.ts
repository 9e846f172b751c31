import { RedisMessageStore, type RedisMessageStoreOptions } from 'millrace/redis';
import type { MessageStoreContractHarness } from 'millrace/testing';

/** The contract on a real server: each case has keys of its own, and the peer another client. */
export function redisHarness(
  name: string,
  redis: () => RedisMessageStoreOptions['redis'],
): MessageStoreContractHarness {
  let made = 0;
  const prefixes = new WeakMap<object, string>();
  const open = (prefix: string): RedisMessageStore => {
    const store = new RedisMessageStore({ redis: redis(), prefix });
    prefixes.set(store, prefix);
    return store;
  };
  return {
    name,
    createStore: () => open(`case-${made++}`),
    createPeer: (store) => open(prefixes.get(store) ?? ''),
    dispose: (store) => (store instanceof RedisMessageStore ? store.close() : undefined),
  };
}

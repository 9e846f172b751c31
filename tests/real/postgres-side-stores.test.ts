import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { AgentLoopError, StoreFactory } from 'millrace';
import { PostgresCacheStore, PostgresMessageStore, PostgresPushStore, PostgresStateStore } from 'millrace/postgres';
import { cacheStoreContract, messageStoreContract } from 'millrace/testing';
import { describePostgres } from '../stores/postgres/describe-postgres.ts';
import { type PostgresProcess, startPostgres } from '../stores/postgres/postgres-process.ts';

const runner = { describe, it };

describePostgres('F-18 the other stores in PostgreSQL', () => {
  let postgres: PostgresProcess;
  let made = 0;
  const schemas = new WeakMap<object, string>();
  const placed = <Store extends object>(schema: string, open: (schema: string) => Store): Store => {
    const store = open(schema);
    schemas.set(store, schema);
    return store;
  };
  const newSchema = () => `case_${made++}`;
  beforeAll(async () => {
    postgres = await startPostgres();
  });
  afterAll(() => postgres.remove());

  const openMessages = (schema: string) => new PostgresMessageStore({ postgres: postgres.url, schema, migrate: true });
  messageStoreContract(
    {
      name: 'PostgresMessageStore',
      createStore: () => placed(newSchema(), openMessages),
      createPeer: (store) => openMessages(schemas.get(store) ?? ''),
      dispose: (store) => (store instanceof PostgresMessageStore ? store.close() : undefined),
    },
    runner,
  );

  cacheStoreContract(
    {
      name: 'PostgresCacheStore',
      createStore: ({ clock }) =>
        placed(
          newSchema(),
          (schema) => new PostgresCacheStore({ postgres: postgres.url, schema, migrate: true, clock }),
        ),
      createPeer: (store, { clock }) =>
        new PostgresCacheStore({ postgres: postgres.url, schema: schemas.get(store), migrate: true, clock }),
      dispose: (store) => (store instanceof PostgresCacheStore ? store.close() : undefined),
    },
    runner,
  );

  it('share a schema with the journals, whose store brings the messages', async () => {
    const options = { postgres: postgres.url, schema: 'shared' };
    const journals = new PostgresStateStore(options);
    await journals.migrate();
    const messages = StoreFactory.createMessageStore({ type: 'postgres', ...options });
    const cache = StoreFactory.createCacheStore({ type: 'postgres', ...options });
    const push = new PostgresPushStore(options);
    await journals.messages.append('c', 't', [{ role: 'user', content: 'nul \0, lone \ud800' }]);
    expect((await messages.load('c')).messages).toEqual([{ role: 'user', content: 'nul \0, lone \ud800' }]);
    await cache.set('k', { a: 1 });
    expect(await cache.get('k')).toEqual({ a: 1 });
    expect(await push.list('t')).toEqual([]);
    await Promise.all([journals, messages, cache, push].map((store) => store.close()));
    await expect(messages.load('c')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  });

  it.each([
    () => new PostgresMessageStore({ postgres: 'postgres://h/d', ...{ ttl: 1 } }),
    () => new PostgresCacheStore({ postgres: 'postgres://h/d', maxEntries: 0 }),
    () => new PostgresPushStore({ postgres: 'postgres://h/d', ttl: 0 }),
  ])('refuse wrong options (%#)', (make) => {
    expect(make).toThrow(AgentLoopError);
  });
});

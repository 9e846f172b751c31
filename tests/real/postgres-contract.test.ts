import { afterAll, beforeAll, describe, it } from '@jest/globals';
import type { TaskStateStore } from 'millrace';
import { PostgresStateStore } from 'millrace/postgres';
import { storeContract } from 'millrace/testing';
import { testLimitMs } from '../eventually.ts';
import { describePostgres } from '../stores/postgres/describe-postgres.ts';
import { type PostgresProcess, startPostgres } from '../stores/postgres/postgres-process.ts';
import { sql } from '../stores/postgres/sql.ts';

describePostgres('F-18 PostgresStateStore on a server', () => {
  let postgres: PostgresProcess;
  beforeAll(async () => {
    postgres = await startPostgres();
    const store = new PostgresStateStore({ postgres: postgres.url });
    await store.migrate();
    await store.close();
  });
  afterAll(() => postgres.remove());

  const stores = new Map<TaskStateStore, PostgresStateStore>();
  const open = (): PostgresStateStore => {
    const store = new PostgresStateStore({ postgres: postgres.url });
    stores.set(store, store);
    return store;
  };
  storeContract(
    {
      name: 'PostgresStateStore',
      createStore: open,
      createPeer: open,
      dispose: async (store) => {
        await stores.get(store)?.close();
        stores.delete(store);
      },
      advance: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
      leaseMs: 2_000,
      deadlineMs: testLimitMs,
      plantUnknownRecord: async (_, taskId) => {
        await sql(
          postgres.url,
          'insert into millrace.record values ($1, 2, $2) on conflict (task_id, seq) do update set record = excluded.record',
          [taskId, '{"type":"later.thing","at":1}'],
        );
        await sql(postgres.url, 'update millrace.task set seq = 2 where task_id = $1', [taskId]);
      },
    },
    { describe, it },
  );
});

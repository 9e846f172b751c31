import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { AgentLoopError, StoreFactory } from 'millrace';
import { startRecord } from 'millrace/internals';
import { PostgresStateStore, type PostgresStateStoreOptions } from 'millrace/postgres';
import type { JournalRecord, Lease } from 'millrace/types';
import { eventually } from '../eventually.ts';
import { describePostgres } from '../stores/postgres/describe-postgres.ts';
import { type PostgresProcess, startPostgres } from '../stores/postgres/postgres-process.ts';
import { sql } from '../stores/postgres/sql.ts';
import { TcpProxy } from '../stores/redis/tcp-proxy.ts';

const options = { status: 'working', barrier: true } as const;

function note({ epoch }: Lease, seq: number, data: unknown): JournalRecord {
  return { type: 'x.note', data, seq, epoch, at: 1_700_000_000_000 + seq };
}

async function failureOf(action: () => unknown): Promise<AgentLoopError> {
  try {
    await action();
  } catch (error) {
    if (AgentLoopError.isInstance(error)) return error;
    throw error;
  }
  throw new Error('It did not fail.');
}

interface Updates {
  readonly updates: number;
  readonly hot: number;
}

/** The updates of heads, once there are as many as that. */
async function counted(url: string, least: number): Promise<Updates> {
  for (let tries = 0; ; tries++) {
    const [row] = await sql(
      url,
      "select n_tup_upd::int as updates, n_tup_hot_upd::int as hot from pg_stat_user_tables where schemaname = 'cost' and relname = 'task'",
    );
    const found = { updates: Number(row?.['updates']), hot: Number(row?.['hot']) };
    if (found.updates >= least || tries > 500) return found;
  }
}

describe('PostgresStateStore, without a server', () => {
  it.each([
    [{ postgres: 'redis://u:secret@h/1' }, 'postgres is no usable URL of the protocol "redis"'],
    [{ postgres: 'u:secret@h' }, 'postgres is no URL'],
    [{ postgres: '' }, 'postgres is'],
    [{ postgres: 'postgres://h/d', schema: 'Journals' }, 'schema is "Journals"'],
    [{ postgres: 'postgres://h/d', ttl: 0 }, 'PostgresStateStore: ttl must be a whole number of seconds from 1'],
    [{ postgres: 'postgres://h/d', listen: 'http://u:secret@h' }, 'listen is no usable URL of the protocol "http"'],
    [{ postgres: 'postgres://h/d', prefix: 'x' }, 'PostgresStateStore has no option "prefix"'],
  ])('refuses the options %j', async (given: object, message) => {
    const error = await failureOf(() => Reflect.construct(PostgresStateStore, [given]));
    expect(error).toMatchObject({ code: 'INVALID_CONFIG', message: expect.stringContaining(message) });
    expect(error.message).not.toContain('secret');
  });

  it('no message has the password', async () => {
    const store = StoreFactory.createStateStore({
      type: 'postgres',
      postgres: 'postgres://u:s3cr%40t@127.0.0.1:1/s3cr@t',
    });
    expect(store).toBeInstanceOf(PostgresStateStore);
    for (const call of [() => store.describe('t'), () => store.check()]) {
      const error = await failureOf(call);
      expect(error).toMatchObject({ code: 'UNAVAILABLE', retryable: true });
      expect(error.message).toContain('ECONNREFUSED');
      expect(`${error.stack} ${JSON.stringify(error)}`).not.toMatch(/s3cr/);
    }
    await store.close();
    expect(await failureOf(() => store.describe('t'))).toMatchObject({ code: 'UNAVAILABLE', retryable: false });
  });
});

describePostgres('PostgresStateStore', () => {
  let postgres: PostgresProcess;
  const stores: PostgresStateStore[] = [];
  beforeAll(async () => {
    postgres = await startPostgres(['log_statement=all', 'track_counts=on']);
  });
  afterAll(() => postgres.remove());
  afterEach(async () => {
    for (const store of stores.splice(0)) await store.close();
  });

  const open = (given: Partial<PostgresStateStoreOptions> = {}): PostgresStateStore => {
    const store = new PostgresStateStore({ postgres: postgres.url, migrate: true, ...given });
    stores.push(store);
    return store;
  };

  it('makes its tables when told to, once, also where several processes do so at the same time', async () => {
    const schema = 'made';
    const store = open({ schema, migrate: false });
    const missing = await failureOf(() => store.create('t', startRecord('t')));
    expect(missing).toMatchObject({ code: 'SCHEMA', message: expect.stringContaining('store.migrate()') });
    expect(await store.check()).toMatchObject({ ok: false, warnings: [missing.message] });
    expect(await sql(postgres.url, 'select from pg_namespace where nspname = $1', [schema])).toEqual([]);
    await Promise.all([store.migrate(), store.migrate(), open({ schema }).migrate()]);
    expect(await sql(postgres.url, 'select version from made.migration')).toEqual([
      { version: 1 },
      { version: 2 },
      { version: 3 },
    ]);
    expect(await store.create('t', startRecord('t'))).toMatchObject({ created: true });
    expect(await open({ schema, migrate: false }).read('t')).toHaveLength(1);
    await store.migrate();
  });

  it('leaves tables of a newer version alone', async () => {
    const schema = 'newer';
    await open({ schema }).migrate();
    await sql(postgres.url, 'insert into newer.migration (version) values (99)');
    for (const migrate of [true, false]) {
      const error = await failureOf(() => open({ schema, migrate }).describe('t'));
      expect(error).toMatchObject({ code: 'SCHEMA', message: expect.stringContaining('version 99') });
    }
    expect(await failureOf(() => open({ schema, migrate: false }).migrate())).toMatchObject({ code: 'SCHEMA' });
  });

  it('says what is wrong with the server', async () => {
    expect(await open().check()).toEqual({ ok: true, warnings: [] });
    const role = await failureOf(() =>
      open({ postgres: `postgres://nobody:s3cret@127.0.0.1:${postgres.port}/postgres` }).list(),
    );
    expect(role).toMatchObject({ code: 'UNAVAILABLE', retryable: false });
    expect(role.message).toContain('nobody');
    expect(role.message).not.toContain('s3cret');
    const lax = open({ postgres: `${postgres.url}?options=-c%20synchronous_commit%3Doff` });
    expect(await lax.check()).toMatchObject({ ok: false, warnings: [expect.stringContaining('synchronous_commit')] });
  });

  it('F-20 an append is one statement, which notifies nobody, and most updates of heads stay in their page', async () => {
    const schema = 'cost';
    const store = open({ schema });
    const heard: unknown[] = [];
    const tasks = ['a', 'b', 'c', 'd'];
    for (const taskId of tasks) await store.create(taskId, startRecord(taskId));
    const leases = await Promise.all(tasks.map((taskId) => store.acquire(taskId, 'o', 60_000)));
    const subscription = open({ schema })
      .follow('a')
      .subscribe((signal) => heard.push(signal));
    await eventually(() => heard.length > 0);
    const before = postgres.log.length;
    const rounds = 100;
    for (let seq = 2; seq < 2 + rounds; seq++) {
      await Promise.all(leases.map((lease) => store.append(lease, [note(lease, seq, 'x'.repeat(500))], options)));
    }
    await eventually(() => heard.length === 1 + rounds);
    subscription.unsubscribe();
    const statements = postgres.log
      .slice(before)
      .join('\n')
      .split(/LOG: {2}/);
    const appends = statements.filter((text) => text.includes('insert into cost.record'));
    expect(appends).toHaveLength(rounds * tasks.length);
    expect(appends.filter((text) => /notify/i.test(text))).toEqual([]);
    expect(statements.filter((text) => /pg_notify/.test(text)).length).toBeLessThan(rounds);
    // Backends report their counts when they end.
    for (const each of stores.splice(0)) await each.close();
    const rows = await counted(postgres.url, rounds * tasks.length);
    expect(rows.hot / rows.updates).toBeGreaterThan(0.8);
  });

  it('F-21 keeps U+0000, lone surrogates and 8 MB as they are', async () => {
    const store = open();
    const odd = 'nul \0, lone \ud800 and \udc00, "quoted" \\u0000';
    const group = odd;
    const large = 'ü\0"'.repeat(1024 * 1024);
    await store.create('odd', startRecord('odd', { contextId: `${group}:1`, text: odd }));
    const lease = await store.acquire('odd', odd, 60_000);
    const records = [note(lease, 2, { [odd]: odd }), note(lease, 3, large)];
    expect(JSON.stringify(records[1]).length).toBeGreaterThan(8 * 1024 * 1024);
    await store.append(lease, records, options);
    await store.renew(lease);
    await store.post('odd', { id: odd, type: 'cancel', reason: odd });
    const other = open();
    const [started, ...rest] = await other.read('odd');
    expect(rest.map((record) => JSON.stringify(record))).toEqual(records.map((record) => JSON.stringify(record)));
    expect(started).toEqual(startRecord('odd', { contextId: `${group}:1`, text: odd }));
    expect(await other.list({ contextId: `${group}:1` })).toMatchObject([{ contextId: `${group}:1` }]);
    expect(await other.list({ byStatus: { group } })).toHaveLength(1);
    expect(await other.post('odd', { id: odd, type: 'pause' })).toMatchObject({ type: 'cancel', reason: odd });
  });

  it('deletes ended tasks after their time, and no others', async () => {
    const schema = 'kept';
    const store = open({ schema, ttl: 1 });
    for (const taskId of ['ended', 'open', 'forever']) await store.create(taskId, startRecord(taskId));
    const end = async (by: PostgresStateStore, taskId: string) => {
      const lease = await by.acquire(taskId, 'o', 60_000);
      const done: JournalRecord = {
        type: 'turn.done',
        text: 'Done.',
        reason: 'stop',
        seq: 2,
        epoch: lease.epoch,
        at: 2,
      };
      await by.append(lease, [done], { status: 'completed', barrier: true });
    };
    await end(store, 'ended');
    await end(open({ schema, ttl: null }), 'forever');
    await sql(postgres.url, 'update kept.task set delete_at = delete_at - 1000');
    const later = open({ schema });
    await later.create('later', startRecord('later'));
    let left: readonly string[] = [];
    for (let tries = 0; tries < 1_000 && left.length !== 3; tries++) {
      left = (await later.list()).map(({ taskId }) => taskId);
    }
    expect(left).toEqual(['later', 'forever', 'open']);
    expect(await sql(postgres.url, "select from kept.record where task_id = 'ended'")).toEqual([]);
  });

  it('F-19 a restart, broken connections and a lost LISTEN leave the journal whole, and readers catch up', async () => {
    const store = open();
    await store.create('outage', startRecord('outage'));
    const seen: number[] = [];
    const reader = open();
    const subscription = reader.follow('outage').subscribe((signal) => {
      if (signal.type === 'record') seen.push(signal.record.seq);
    });
    await eventually(() => seen.length === 1);
    const lease = await store.acquire('outage', 'o', 600_000);
    const insist = async (seq: number) => {
      for (let tries = 0; ; tries++) {
        try {
          return await store.append(lease, [note(lease, seq, seq)], options);
        } catch (error) {
          if (!AgentLoopError.isInstance(error) || error.code !== 'UNAVAILABLE' || !error.retryable || tries > 10_000)
            throw error;
        }
      }
    };
    await insist(2);
    const cut = () =>
      sql(postgres.url, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'millrace'");
    for (let seq = 3; seq < 20; seq++) await Promise.all([insist(seq), cut()]);
    const away = insist(20);
    await postgres.end('SIGQUIT');
    const during = insist(21);
    await postgres.start();
    await Promise.all([away, during]);
    await insist(22);
    await eventually(() => seen.length === 22);
    subscription.unsubscribe();
    const whole = Array.from({ length: 22 }, (_, index) => index + 1);
    expect(seen).toEqual(whole);
    expect((await reader.read('outage')).map(({ seq }) => seq)).toEqual(whole);
  });

  it('F-19 an answer that is lost with its connection is asked for again, and nothing is done twice', async () => {
    const proxy = await TcpProxy.start(postgres.port);
    try {
      const schema = 'lossy';
      const past = open({ schema });
      await past.migrate();
      const port = new URL(proxy.url).port;
      const store = open({ schema, migrate: false, postgres: `postgres://millrace@127.0.0.1:${port}/postgres` });
      const losing = async <T>(marker: string, act: () => Promise<T>): Promise<T> => {
        const lost = proxy.loseReplyTo(marker);
        const answer = await act();
        await lost;
        return answer;
      };
      expect(await losing('insert into lossy.task', () => store.create('t', startRecord('t')))).toMatchObject({
        created: true,
      });
      const lease = await losing('update lossy.task', () => store.acquire('t', 'o', 60_000));
      await losing('insert into lossy.record', () => store.append(lease, [note(lease, 2, 'x')], options));
      await losing('update lossy.task', () => store.renew(lease));
      await store.append(lease, [note(lease, 3, 'y')], options);
      expect((await past.read('t')).map(({ seq }) => seq)).toEqual([1, 2, 3]);
      expect(await losing('lossy.command', () => store.post('t', { id: 'c', type: 'pause' }))).toMatchObject({
        id: 'c',
      });
      expect(await sql(postgres.url, 'select from lossy.command')).toHaveLength(1);

      const said = { role: 'user', content: 'Hi.' } as const;
      const keep = async () => store.messages.append('c', 't', [said]);
      expect(await losing('lossy.row', keep)).toEqual({ appended: true });
      expect(await past.messages.load('c')).toMatchObject({ messages: [{ content: 'Hi.' }] });

      // Another call is told that the task stands, and that it is taken.
      expect(await past.create('t', startRecord('t'))).toMatchObject({ created: false });
      expect(await failureOf(() => past.acquire('t', 'o', 60_000))).toMatchObject({ code: 'BUSY' });

      // Sent again it might break the lease of the next owner.
      const unknown = await failureOf(() => losing('update lossy.task', () => store.breakLease('t')));
      expect(unknown).toMatchObject({ code: 'UNAVAILABLE', retryable: true });
    } finally {
      for (const store of stores.splice(0)) await store.close();
      await proxy.close();
    }
  });
});

import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { testLimitMs } from '../eventually.ts';
import { ChildPrograms } from '../stores/lmdb/child-programs.ts';
import { describePostgres } from '../stores/postgres/describe-postgres.ts';
import { type PostgresProcess, startPostgres } from '../stores/postgres/postgres-process.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { type RedisProcess, startRedis } from '../stores/redis/redis-process.ts';

const run = promisify(execFile);
const programs = new ChildPrograms('tests/real');
afterAll(() => programs.clear());

/** Rejects where the process does not end with 0; one that never ends is killed. */
async function printed(program: object): Promise<string> {
  const args = [programs.bundleOf('closing-program'), JSON.stringify(program)];
  const { stdout, stderr } = await run(process.execPath, args, { timeout: testLimitMs });
  return stdout + stderr;
}

const orders = ['forth', 'back', 'at once'] as const;

const [alone, traced] = [
  ['agent', 'team', 'observed'],
  ['tracing', 'busy', 'asking'],
];

describe('a program that closes all that it made', () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-closed-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it.each([
    ['memory', alone],
    ['memory', ['a2a', 'mcp', 'ui', 'tracing']],
    ['lmdb', alone],
    ['lmdb', traced],
  ])('R-07 runs on, and ends by itself: %s, %j', async (store, parts) => {
    for (const order of orders) expect(await printed({ store, at: folder, parts, order })).toBe('closed\n');
  });
});

describePostgres('a program that closes a PostgresStateStore', () => {
  let server: PostgresProcess;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());

  it.each([
    ['postgres', ['agent']],
    ['postgres', alone],
    ['postgres', traced],
    ['postgres', ['a2a', 'mcp', 'ui']],
    ['postgres without listening', alone],
    ['postgres without listening', traced],
  ])('R-07 runs on, and ends by itself: %s, %j', async (store, parts) => {
    for (const order of orders) expect(await printed({ store, at: server.url, parts, order })).toBe('closed\n');
  });
});

describeRedis('a program that closes a RedisStateStore', () => {
  let server: RedisProcess;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.remove());

  it.each([[alone], [traced], [['a2a', 'mcp', 'ui']], [['fleet']], [['fleet', 'tracing']]])(
    'R-07 runs on, and ends by itself: %j',
    async (parts) => {
      for (const order of orders) {
        expect(await printed({ store: 'redis', at: server.url, parts, order })).toBe('closed\n');
      }
    },
  );
});

import { mkdtempSync, rmSync, statSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { type Agent, agent, type TaskStateStore } from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';
import { PostgresStateStore } from 'millrace/postgres';
import { RedisStateStore } from 'millrace/redis';
import { scriptedLLM } from 'millrace/testing';
import { describeReal } from '../real/real-part.ts';
import { describePostgres } from '../stores/postgres/describe-postgres.ts';
import { startPostgres } from '../stores/postgres/postgres-process.ts';
import { LoopbackProxy } from '../stores/redis/loopback-proxy.ts';
import { startRedis } from '../stores/redis/redis-process.ts';

/** Counts the bytes between a store and its server. */
class CountingProxy extends LoopbackProxy {
  bytes = 0;

  static start(targetPort: number): Promise<CountingProxy> {
    return new CountingProxy(targetPort).listen();
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  protected override join(client: Socket, server: Socket): void {
    const pass = (from: Socket, to: Socket) =>
      from.on('data', (chunk) => {
        this.bytes += chunk.length;
        to.write(chunk);
      });
    pass(client, server);
    pass(server, client);
  }
}

/** A question of 87 characters, and an answer as long. */
const question = (turn: number) => `Question ${turn}`.padEnd(87, '.');

/** Runs so many short turns in one conversation; `after` is called behind each. */
async function converse(
  taskStateStore: TaskStateStore & { close(): Promise<void> },
  turns: number,
  after: (turn: number) => unknown,
): Promise<void> {
  const steps = Array.from({ length: turns }, (_, index) => ({ text: `Answer ${index + 1}`.padEnd(87, '.') }));
  const ada: Agent = agent({ name: 'ada', provider: scriptedLLM(steps), taskStateStore, contextId: 'c' });
  try {
    for (let turn = 1; turn <= turns; turn++) {
      await ada.run(question(turn));
      await after(turn);
    }
  } finally {
    await ada.close();
    await taskStateStore.close();
  }
}

/** Notes a sum behind each turn. `between` is what it grew by from one turn to another. */
function growth(sum: () => number) {
  const sums = [sum()];
  return {
    note: () => sums.push(sum()),
    between: (from: number, to: number) => (sums[to] ?? Number.NaN) - (sums[from] ?? Number.NaN),
  };
}

describeReal(['redis'], 'a conversation of 400 turns in Redis', () => {
  it('C-01 takes 4 MiB, and its last turns send and read what its first ones do', async () => {
    const server = await startRedis();
    const proxy = await CountingProxy.start(server.port);
    const client = new Redis(server.url);
    try {
      const memory = async () => Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1]);
      const before = await memory();
      const bytes = growth(() => proxy.bytes);
      await converse(new RedisStateStore({ redis: proxy.url }), 400, bytes.note);
      expect((await memory()) - before).toBeLessThan(4 * 1024 * 1024);
      expect(bytes.between(380, 400)).toBeLessThan(1.5 * bytes.between(20, 40));
    } finally {
      client.disconnect();
      await proxy.close();
      await server.remove();
    }
  });
});

describePostgres('a conversation of 400 turns in PostgreSQL', () => {
  it('C-01 sends and reads with its last turns what it does with its first ones', async () => {
    const server = await startPostgres();
    const proxy = await CountingProxy.start(server.port);
    try {
      const bytes = growth(() => proxy.bytes);
      const postgres = server.url.replace(`:${server.port}`, `:${proxy.port}`);
      await converse(new PostgresStateStore({ postgres, migrate: true }), 400, bytes.note);
      expect(bytes.between(380, 400)).toBeLessThan(1.5 * bytes.between(20, 40));
    } finally {
      await proxy.close();
      await server.remove();
    }
  });
});

it('C-01 a conversation of 400 turns in LMDB grows by the same with its last turns as with its first ones', async () => {
  const path = mkdtempSync(join(tmpdir(), 'millrace-growth-'));
  try {
    const store = new LmdbStateStore({ path });
    const bytes = growth(() => statSync(join(path, 'data.mdb')).size);
    await converse(store, 400, bytes.note);
    expect(bytes.between(200, 400)).toBeLessThan(1.5 * bytes.between(0, 200));
  } finally {
    rmSync(path, { recursive: true });
  }
});

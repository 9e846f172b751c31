import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { MessageStore } from 'millrace';
import { LmdbDatabase } from 'millrace/internals';
import { LmdbMessageStore } from 'millrace/lmdb';
import { RedisMessageStore } from 'millrace/redis';
import { describeRedis } from '../redis/describe-redis.ts';
import { startRedis } from '../redis/redis-process.ts';

/** A user's message as 0.1 stored it, with the id that its sender gave it, and one without. */
const theirs = { role: 'user' as const, content: 'Hello', id: 'ui-1', createdAt: '2025-06-01T00:00:00.000Z' };
const answer = { role: 'assistant' as const, content: 'Yes?' };
const made = Date.UTC(2025, 5, 1, 0, 0, 1);

/** The context `c` of 0.1, as this version reads and continues it. */
async function continues(store: MessageStore, appendAsBefore: (position: number, text: string) => Promise<unknown>) {
  const { messages, next } = await store.list('c', { limit: 1, order: 'newest-first' });
  expect(messages).toEqual([{ id: 'c:1', createdAt: new Date(made).toISOString(), message: answer }]);
  const first = { id: 'c:0', createdAt: theirs.createdAt, message: theirs };
  expect((await store.list('c', { after: next, order: 'newest-first' })).messages).toEqual([first]);
  await store.append('c', 'new', [theirs, answer]);
  // A process of 0.1 may still run beside this one.
  await appendAsBefore(4, JSON.stringify(answer));
  const all = (await store.list('c')).messages;
  expect(all.map(({ id }) => id)).toEqual(['c:0', 'c:1', 'new:2', 'new:3', 'c:4']);
  expect((await store.list('c', { after: 'c:1', limit: 2 })).messages).toEqual(all.slice(2, 4));
  expect(all.map(({ message }) => message)).toEqual([theirs, answer, theirs, answer, answer]);
  expect((await store.load('c')).messages).toEqual([theirs, answer, theirs, answer, answer]);
}

describe('a context that 0.1 stored, whose messages have no ids', () => {
  it('U-10 is read, listed and continued, in LMDB', async () => {
    const path = mkdtempSync(join(tmpdir(), 'millrace-before-ids-'));
    const store = new LmdbMessageStore({ path });
    try {
      await store.append('c', 'old', [theirs, answer]);
      const raw = new LmdbDatabase(path);
      const put = (position: number, text: string, total: number) =>
        raw.write(() => {
          const before = JSON.parse(raw.get(['conversation', 'c']) ?? '');
          raw.put(['message', 'c', position], text);
          raw.put(['conversation', 'c'], JSON.stringify({ ...before, createdAt: made, total }));
        });
      await put(0, JSON.stringify(theirs), 2);
      await put(1, JSON.stringify(answer), 2);
      await continues(store, (position, text) => put(position, text, position + 1));
      await raw.close();
    } finally {
      await store.close();
      rmSync(path, { recursive: true });
    }
  });
});

describeRedis('a context that 0.1 stored, whose messages have no ids', () => {
  it('U-10 is read, listed and continued, in Redis', async () => {
    const server = await startRedis();
    const client = new Redis(server.url);
    const store = new RedisMessageStore({ redis: server.url });
    try {
      await store.append('c', 'old', [theirs, answer]);
      const put = async (position: number, text: string) => {
        if ((await client.llen('millrace:{c}:mm')) > position) await client.lset('millrace:{c}:mm', position, text);
        else await client.rpush('millrace:{c}:mm', text);
        const total = await client.llen('millrace:{c}:mm');
        await client.hset('millrace:{c}:mh', { total, createdAt: made });
      };
      await put(0, JSON.stringify(theirs));
      await put(1, JSON.stringify(answer));
      await continues(store, put);
    } finally {
      await store.close();
      client.disconnect();
      await server.remove();
    }
  });
});

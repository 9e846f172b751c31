import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import type { MessageStore } from 'millrace';
import { LmdbMessageStore } from 'millrace/lmdb';
import { RedisMessageStore } from 'millrace/redis';
import { ChildPrograms, kill, linesOf } from '../stores/lmdb/child-programs.ts';
import { largeTurn, messagesPerTurn } from '../stores/messages/large-turn.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { startRedis } from '../stores/redis/redis-process.ts';

const programs = new ChildPrograms('tests/stores/messages/children');
afterAll(() => programs.clear());

/** What stands in the context: whole turns, in order, and as open at most the one behind them. */
async function wholeTurns(store: MessageStore): Promise<number> {
  const { messages, openTurns, total } = await store.load('c');
  const turns = total / messagesPerTurn;
  expect(turns).toBe(Math.floor(turns));
  expect(messages).toEqual(Array.from({ length: turns }, (_, turn) => largeTurn(turn)).flat());
  expect([[], [`turn-${turns}`]]).toContainEqual(openTurns);
  return turns;
}

const rounds = 5;
const mostRounds = 40;

/**
 * Kills a process that appends, at a moment by chance, and looks at what it left; the next one settles its open turn. Goes on until
 * one was killed within a turn.
 */
async function killWhileItAppends(configuration: object, store: MessageStore): Promise<void> {
  let turns = 0;
  let leftOpen = 0;
  for (let round = 0; round < rounds || (leftOpen === 0 && round < mostRounds); round++) {
    const child = programs.start('remember', JSON.stringify(configuration), String(turns));
    const printed = linesOf(child);
    await printed.reach(1 + Math.floor(Math.random() * 4));
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 15));
    await kill(child);
    const acknowledged = Math.max(...printed.lines.map(Number)) + 1;
    const found = await wholeTurns(store);
    expect(found).toBeGreaterThanOrEqual(acknowledged);
    expect(found).toBeLessThanOrEqual(acknowledged + 1);
    leftOpen += (await store.load('c', { limit: 0 })).openTurns.length;
    turns = found;
  }
  expect(leftOpen).toBeGreaterThan(0);
}

describe('a message store whose process is killed with SIGKILL', () => {
  it('in LMDB keeps every acknowledged turn, no half one, and lists the one it was in as open', async () => {
    const path = mkdtempSync(join(tmpdir(), 'millrace-killed-'));
    const store = new LmdbMessageStore({ path });
    try {
      await killWhileItAppends({ type: 'lmdb', path }, store);
    } finally {
      await store.close();
      rmSync(path, { recursive: true });
    }
  });
});

describeRedis('a message store on Redis', () => {
  it('keeps every acknowledged turn and no half one where its process is killed with SIGKILL', async () => {
    const redis = await startRedis();
    const store = new RedisMessageStore({ redis: redis.url });
    try {
      await killWhileItAppends({ type: 'redis', redis: redis.url }, store);
    } finally {
      await store.close();
      await redis.remove();
    }
  });

  it('keeps every acknowledged turn and no half one where Redis itself is killed, with appendfsync always', async () => {
    const redis = await startRedis({ config: ['appendonly yes', 'appendfsync always', 'save ""'] });
    try {
      const child = programs.start('remember', JSON.stringify({ type: 'redis', redis: redis.url }));
      const printed = linesOf(child);
      await printed.reach(3);
      await redis.end('SIGKILL');
      await kill(child);
      await redis.start();
      const store = new RedisMessageStore({ redis: redis.url });
      expect(await wholeTurns(store)).toBeGreaterThanOrEqual(Math.max(...printed.lines.map(Number)) + 1);
      await store.close();
    } finally {
      await redis.remove();
    }
  });
});

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from '@jest/globals';
import { RedisStateStore } from 'millrace/redis';
import { startRedis } from '../stores/redis/redis-process.ts';
import { describeReal } from './real-part.ts';

const compose = readFileSync(fileURLToPath(new URL('../../docker-compose.yml', import.meta.url)), 'utf8');

describeReal(['redis'], 'Redis as docker-compose.yml starts it', () => {
  it('is one that the store has nothing to say against, and its health check asks what it answers', async () => {
    const command: readonly string[] = JSON.parse(/command: (\["redis-server".*\])/.exec(compose)?.[1] ?? '[]');
    const flags = command.slice(1).join(' ').split(/ ?--/).filter(Boolean);
    expect(flags).toContain('appendonly yes');
    const redis = await startRedis({ config: flags });
    const store = new RedisStateStore({ redis: redis.url });
    try {
      expect(await store.check()).toEqual({ ok: true, warnings: [] });
      const health: readonly string[] = JSON.parse(/test: (\["CMD", "redis-cli".*\])/.exec(compose)?.[1] ?? '[]');
      expect(redis.cli(...health.slice(2))).toBe('PONG');
    } finally {
      await store.close();
      await redis.remove();
    }
  });
});

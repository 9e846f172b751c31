import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ChildPrograms, nextMessage } from '../stores/lmdb/child-programs.ts';
import { TemporaryStores } from '../stores/lmdb/temporary-stores.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';
import { startRedis } from '../stores/redis/redis-process.ts';

const programs = new ChildPrograms('tests/stores/children');
const folders = new TemporaryStores();
afterAll(async () => {
  await programs.clear();
  await folders.clear();
});

/** Eight answers at once, of half a megabyte where the chunks are not tiny: in megabytes what they took at most, and what an open one held for each byte of its text. */
async function measured(store: string, where: string, readers: string, chunkLength: number) {
  const child = programs.start(
    'streamed-answers',
    store,
    where,
    readers,
    '8',
    String(2_048 * Math.min(chunkLength, 64) * 4),
    String(chunkLength),
  );
  const [figures] = await nextMessage(child);
  await once(child, 'exit');
  return figures;
}

function itStreams(store: string, where: () => string): void {
  it.each([256, 16])('H-10 shows them to a follower each, in chunks of %i characters', async (chunkLength) => {
    const { peakMegabytes, whole } = await measured(store, where(), 'followed', chunkLength);
    expect(whole).toBe(true);
    expect(peakMegabytes).toBeLessThan(100);
  });

  it.each([256, 16])('H-10 holds at most twice the text of open answers in chunks of %i', async (chunkLength) => {
    const { openPerText, whole } = await measured(store, where(), 'alone', chunkLength);
    expect(whole).toBe(true);
    expect(openPerText).toBeLessThan(2);
  });
}

describe('streamed answers on the memory store', () => itStreams('memory', () => ''));

describe('streamed answers on LMDB', () => itStreams('lmdb', () => folders.path()));

describeRedis('streamed answers on Redis', () => {
  const server = startRedis();
  let url = '';
  beforeAll(async () => {
    url = (await server).url;
  });
  afterAll(async () => (await server).remove());
  itStreams('redis', () => url);
});

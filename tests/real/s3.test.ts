import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  CreateMultipartUploadCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { type ArtifactStore, folderArtifactStore, InMemoryStateStore, LocalToolProvider, tool } from 'millrace';
import { AgentLoop, randomChunks } from 'millrace/internals';
import { S3ArtifactStore, type S3ArtifactStoreOptions } from 'millrace/s3';
import { artifactStoreContract, fakeClock, scriptedLLM } from 'millrace/testing';
import { runSuite } from '../contract/run-contract.ts';
import { TcpProxy } from '../stores/redis/tcp-proxy.ts';
import { CuttingProxy } from './cutting-proxy.ts';
import { describeReal } from './real-part.ts';
import { type SwiftProcess, startSwift } from './swift/swift-process.ts';

const MiB = 1024 * 1024;
const partBytes = 5 * MiB;
const week = 7 * 24 * 60 * 60 * 1000;

async function sha256Read(store: ArtifactStore, artifactId: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of store.read(artifactId)) hash.update(chunk);
  return hash.digest('hex');
}

describeReal(['swift'], 'S3ArtifactStore', () => {
  let swift: SwiftProcess;
  let client: S3Client;
  let peerClient: S3Client;
  let made = 0;
  const prefixes = new WeakMap<object, string>();
  const closing: { close(): Promise<void> }[] = [];

  const open = (options: Partial<S3ArtifactStoreOptions> = {}): S3ArtifactStore => {
    const prefix = `case-${made++}/`;
    const store = new S3ArtifactStore({ bucket: 'artifacts', s3: client, prefix, partBytes, ...options });
    prefixes.set(store, options.prefix ?? prefix);
    closing.push(store);
    return store;
  };
  const keysOf = async (store: S3ArtifactStore): Promise<readonly string[]> => {
    const prefix = prefixes.get(store) ?? '';
    const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: 'artifacts', Prefix: prefix }));
    return Contents.map(({ Key = '' }) => Key.slice(prefix.length));
  };
  const uploadsOf = async (store: S3ArtifactStore): Promise<number> => {
    const of = { Bucket: 'artifacts', Prefix: prefixes.get(store) };
    return (await client.send(new ListMultipartUploadsCommand(of))).Uploads?.length ?? 0;
  };

  beforeAll(async () => {
    swift = await startSwift();
    await swift.makeBucket('artifacts');
    client = swift.conditionalClient();
    peerClient = swift.conditionalClient();
  });
  afterEach(async () => {
    await Promise.all(closing.splice(0).map((one) => one.close()));
  });
  afterAll(async () => {
    client?.destroy();
    peerClient?.destroy();
    await swift?.remove();
  });

  it('S1-91 keeps every promise of the artifact contract, with a second instance on the same bucket', async () => {
    const { passed, failed } = await runSuite((runner) =>
      artifactStoreContract(
        {
          name: 'S3ArtifactStore',
          createStore: () => open(),
          createPeer: (store) => open({ prefix: prefixes.get(store) ?? '', s3: peerClient }),
        },
        runner,
      ),
    );
    expect([...failed]).toEqual([]);
    expect(passed.length).toBeGreaterThan(20);
  });

  it('keeps them within one process where the server knows no conditional writes', async () => {
    const { failed } = await runSuite((runner) =>
      artifactStoreContract(
        { name: 'S3ArtifactStore', createStore: () => open({ s3: swift.config(), conditionalWrites: false }) },
        runner,
      ),
    );
    expect([...failed]).toEqual([]);
  });

  it('S1-94 50 MB are read back byte for byte from a folder and from S3, and the journal holds only their reference', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'millrace-large-'));
    try {
      for (const artifacts of [folderArtifactStore(folder), open()]) {
        const written = createHash('sha256');
        const write = tool({
          name: 'write_film',
          description: 'Writes a film.',
          parameters: { type: 'object' },
          async execute(_, { taskId }) {
            const { artifactId } = await artifacts.create({ name: 'film', taskId });
            for (const chunk of randomChunks(50 * MiB, 3 * MiB + 7)) {
              written.update(chunk);
              await artifacts.append(artifactId, chunk);
            }
            return (await artifacts.append(artifactId, '', { last: true })).artifact;
          },
        });
        const journals = new InMemoryStateStore();
        const turn = new AgentLoop({
          agentId: 'director',
          llmProvider: scriptedLLM([{ toolCalls: [{ name: 'write_film' }] }, { text: 'Written.' }]),
          toolProviders: [new LocalToolProvider([write])],
          taskStateStore: journals,
          toolTimeoutMs: 100_000,
        }).startTurn([{ role: 'user', content: 'Write.' }], { taskId: 't' });
        await turn.result();
        const [film] = (await artifacts.list({ taskId: 't' })).artifacts;
        expect(film?.size).toBe(50 * MiB);
        expect(await sha256Read(artifacts, film?.artifactId ?? '')).toBe(written.digest('hex'));
        const journal = JSON.stringify(journals.read('t'));
        expect(journal).toContain(film?.artifactId);
        expect(journal.length).toBeLessThan(10_000);
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('sends a content that comes in small pieces in whole parts', async () => {
    const counting = swift.conditionalClient();
    const sizes: (number | undefined)[] = [];
    counting.middlewareStack.add(
      (next, { commandName }) =>
        (args) => {
          const body = 'Body' in args.input ? args.input.Body : undefined;
          if (commandName === 'UploadPartCommand' && body instanceof Uint8Array) sizes.push(body.length);
          return next(args);
        },
      { step: 'initialize' },
    );
    const store = open({ s3: counting });
    const { artifactId } = await store.create({ name: 'large' });
    for (const chunk of randomChunks(12 * MiB, 100_003)) await store.append(artifactId, chunk);
    expect((await store.append(artifactId, '', { last: true })).artifact?.size).toBe(12 * MiB);
    expect(sizes).toEqual([partBytes, partBytes, 2 * MiB]);
    counting.destroy();
  });

  it('keeps the newest versions, which share the content that did not change, and leaves nothing of others', async () => {
    const store = open({ keepVersions: 2 });
    await store.create({ artifactId: 'a', name: 'a', content: 'x', taskId: 't', contextId: 'c' });
    for (const name of ['b', 'c', 'd']) await store.update('a', { name });
    expect(await keysOf(store)).toEqual([
      'artifacts/c4/000000000003',
      'artifacts/c4/000000000004',
      expect.stringMatching(/^contents\/c4\/[0-9a-f-]{36}$/),
      'contexts/cc/c4',
      'tasks/eg/c4',
    ]);
    await store.update('a', { content: 'y' });
    await store.update('a', { content: 'z' });
    expect((await keysOf(store)).filter((key) => key.startsWith('contents/'))).toHaveLength(2);
    await expect(store.create({ artifactId: 'a', name: 'a' })).rejects.toMatchObject({ code: 'CONFLICT' });
    await expect(store.update('a', { content: 'y' }, { version: 7 })).rejects.toMatchObject({ code: 'CONFLICT' });
    expect(await keysOf(store)).toHaveLength(6);
    await store.delete('a');
    expect(await keysOf(store)).toEqual([]);
  });

  it('ends the upload of a draft that is started over, and those that nobody went on with for a week', async () => {
    const store = open();
    await store.create({ artifactId: 'a', name: 'a' });
    await store.append('a', Buffer.alloc(partBytes + 1));
    expect(await uploadsOf(store)).toBe(1);
    await store.append('a', 'anew', { offset: 0 });
    expect(await uploadsOf(store)).toBe(0);
    const prefix = prefixes.get(store) ?? '';
    await client.send(new CreateMultipartUploadCommand({ Bucket: 'artifacts', Key: `${prefix}contents/left` }));
    const clock = fakeClock();
    clock.advance(Date.now() + week - 60_000 - clock.now());
    await open({ prefix, clock }).create({ name: 'b' });
    expect(await uploadsOf(store)).toBe(1);
    clock.advance(120_000);
    await open({ prefix, clock }).create({ name: 'c' });
    expect(await uploadsOf(store)).toBe(0);
  });

  it('reads on behind connections that break, and gives up where none brings a byte', async () => {
    const proxy = await CuttingProxy.start(swift.port);
    try {
      const store = open({ s3: swift.config(proxy.port), conditionalWrites: false });
      const content = Buffer.concat([...randomChunks(12 * MiB, MiB)]);
      await store.create({ artifactId: 'a', name: 'a', content });
      proxy.cut({ after: 2 * MiB, times: 4 });
      expect(content.equals((await store.get('a'))?.content ?? Buffer.of())).toBe(true);
      expect(proxy.cuts).toBe(4);
      proxy.cut({ after: MiB, times: 1_000 });
      const chunks: number[] = [];
      const reading = async () => {
        for await (const chunk of store.read('a')) {
          chunks.push(chunk.length);
          proxy.cut({ after: 0, times: 1_000 });
        }
      };
      await expect(reading()).rejects.toMatchObject({ code: 'UNAVAILABLE', retryable: true });
      expect(chunks.length).toBeGreaterThan(0);
    } finally {
      await proxy.close();
    }
  });

  it('knows its own version where the reply to its write was lost and the request is sent again', async () => {
    const proxy = await TcpProxy.start(swift.port);
    const lossy = swift.conditionalClient(Number(new URL(proxy.url).port));
    try {
      const store = open({ s3: lossy });
      await store.create({ artifactId: 'a', name: 'a', content: 'one' });
      const lost = proxy.loseReplyTo('x-if-none-match');
      expect(await store.update('a', { content: 'two' })).toMatchObject({ version: 2 });
      await lost;
      expect((await keysOf(store)).filter((key) => key.startsWith('artifacts/'))).toHaveLength(2);
    } finally {
      lossy.destroy();
      await proxy.close();
    }
  });

  it('refuses a content that was changed, is gone, or is named by damaged objects, as POISON', async () => {
    const store = open();
    const prefix = prefixes.get(store) ?? '';
    const put = (key: string, Body: string) =>
      client.send(new PutObjectCommand({ Bucket: 'artifacts', Key: `${prefix}${key}`, Body }));
    for (const artifactId of ['a', 'b']) await store.create({ artifactId, name: 'a', content: 'a content' });
    const [content = ''] = (await keysOf(store)).filter((key) => key.startsWith('contents/c4'));
    await put(content, 'A content');
    await expect(store.get('a')).rejects.toMatchObject({ code: 'POISON' });
    await put('artifacts/c8/000000000001', '{"info":');
    await expect(store.get('b')).rejects.toMatchObject({ code: 'POISON' });
    const moved = { info: (await store.describe('a')) ?? {}, content: `${prefix}contents/gone`, stamp: 's' };
    await put('artifacts/c4/000000000001', JSON.stringify(moved));
    await expect(store.get('a')).rejects.toMatchObject({ code: 'POISON' });
    await put('artifacts/c8/000000000001', JSON.stringify(moved));
    await expect(store.get('b')).rejects.toMatchObject({ code: 'POISON' });
  });

  it('says what is wrong: credentials, bucket, a server that is away or knows no conditional writes', async () => {
    const config = swift.config();
    const wrong = { ...config, credentials: { accessKeyId: 'test:tester', secretAccessKey: 'secret-of-nobody' } };
    const cases: readonly [Partial<S3ArtifactStoreOptions>, boolean, RegExp][] = [
      [{ s3: wrong }, false, /SignatureDoesNotMatch.*credentials/s],
      [{ s3: config, bucket: 'nobody-made-it' }, false, /NoSuchBucket.*create it/s],
      [{ s3: { ...config, endpoint: 'http://127.0.0.1:1', maxAttempts: 1 } }, true, /ECONNREFUSED/],
      [{ s3: config }, false, /NotImplemented.*set conditionalWrites to false/s],
    ];
    for (const [options, retryable, message] of cases) {
      const failure: unknown = await open(options)
        .create({ name: 'a' })
        .catch((error) => error);
      expect(failure).toMatchObject({ code: 'UNAVAILABLE', retryable, message: expect.stringMatching(message) });
      expect(JSON.stringify(failure)).not.toContain('secret-of-nobody');
    }
  });

  it('checks whether the server keeps keys from being written twice, and leaves nothing behind', async () => {
    const store = open();
    expect(await store.check()).toEqual({ ok: true, warnings: [] });
    expect(await keysOf(store)).toEqual([]);
    const ignoring = swift.carelessClient();
    expect(await open({ s3: ignoring }).check()).toEqual({
      ok: false,
      warnings: [expect.stringContaining('ignores If-None-Match')],
    });
    ignoring.destroy();
    await expect(open({ s3: swift.config() }).check()).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(await open({ s3: swift.config(), conditionalWrites: false }).check()).toMatchObject({ ok: true });
  });
});

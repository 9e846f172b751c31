import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from '@jest/globals';
import type { UIChunk } from 'millrace/ui';
import { slowText } from '../front-ends/model.ts';
import { ChildPrograms, kill, nextMessage } from '../stores/lmdb/child-programs.ts';
import { type RedisProcess, startRedis } from '../stores/redis/redis-process.ts';
import { approval, said } from '../ui/chat-client.ts';
import { type FoldedMessage, foldedOf } from '../ui/fold-ui-message.ts';
import { dataOf } from '../ui/frames.ts';
import { describeReal } from './real-part.ts';

interface Served {
  readonly child: ChildProcess;
  readonly url: string;
}

for (const kind of ['lmdb', 'redis'] as const) {
  describeReal(kind === 'redis' ? ['redis'] : [], `two servers of one store in ${kind}`, () => {
    const folder = mkdtempSync(join(tmpdir(), 'millrace-servers-'));
    const effects = join(folder, 'effects');
    const programs = new ChildPrograms('tests/front-ends');
    let redis: RedisProcess | undefined;
    let one: Served;
    let two: Served;
    let chats = 0;
    let chat = '';

    async function serve(): Promise<Served> {
      const child = programs.start('server', redis?.url ?? join(folder, 'store'), '', effects);
      const [url] = await nextMessage(child);
      return { child, url };
    }

    beforeAll(async () => {
      redis = kind === 'redis' ? await startRedis() : undefined;
      [one, two] = await Promise.all([serve(), serve()]);
    });
    beforeEach(() => {
      chat = `chat-${chats++}`;
      writeFileSync(effects, '');
    });
    afterEach(async () => {
      if (one.child.exitCode !== null || one.child.signalCode !== null) one = await serve();
    });
    afterAll(async () => {
      await programs.clear();
      await redis?.remove();
      rmSync(folder, { recursive: true, force: true });
    });

    function post({ url }: Served, body: object): Promise<Response> {
      const headers = { 'content-type': 'application/json' };
      return fetch(`${url}/api/chat`, { method: 'POST', headers, body: JSON.stringify({ id: chat, ...body }) });
    }

    async function folded(response: Response, message?: FoldedMessage): Promise<FoldedMessage> {
      const chunks: readonly UIChunk[] = JSON.parse(`[${dataOf(await response.text()).join(',')}]`);
      return foldedOf(chunks, message);
    }

    /** The response, once the text has begun, and the reader that leaves it. */
    async function begun(response: Response): Promise<() => Promise<void>> {
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ''; !text.includes('word2'); ) text += (await reader?.read())?.value ?? '';
      return async () => reader?.cancel();
    }

    it('streams the turn of one at the other, from its beginning, while it runs', async () => {
      const leave = await begun(await post(one, { messages: [said('m1', 'slow')] }));
      const message = await folded(await fetch(`${two.url}/api/chat/${chat}/stream`));
      expect([message.text, message.metadata.state]).toEqual([slowText, 'completed']);
      await leave();
    });

    it('attaches to the turn of one where the same message is posted to the other', async () => {
      const leave = await begun(await post(one, { messages: [said('m1', 'book slow')] }));
      const message = await folded(await post(two, { messages: [said('m1', 'book slow')] }));
      expect(message.text).toBe(`Booking.${slowText}`);
      expect(readFileSync(effects, 'utf8')).toBe('effect\n');
      await leave();
    });

    it('takes the approval that one asked for at the other, and the tool runs once', async () => {
      const message = await folded(await post(one, { messages: [said('m1', 'refund')] }));
      const id = message.parts.find(({ approvalId }) => approvalId)?.approvalId ?? '';
      message.continue();
      const both = await Promise.all([two, one].map((server) => post(server, { messages: [approval(id, true)] })));
      const [first] = both;
      if (first) await folded(first, message);
      expect(await both[1]?.text()).toContain('"state":"completed"');
      expect([message.text, message.metadata.state]).toEqual(['I will.All is done.', 'completed']);
      expect(readFileSync(effects, 'utf8')).toBe('effect\n');
    });

    it('stops the turn of one at the other', async () => {
      const leave = await begun(await post(one, { messages: [said('m1', 'slow')] }));
      const following = await fetch(`${two.url}/api/chat/${chat}/stream`);
      expect((await fetch(`${two.url}/api/chat/${chat}/stop`, { method: 'POST' })).status).toBe(204);
      expect((await folded(following)).metadata.state).toBe('canceled');
      await leave();
    });

    it('V-04 goes on at the other where one is killed in the middle, for a client that is connected there, and no effect runs twice', async () => {
      await begun(await post(one, { messages: [said('m1', 'book slow')] }));
      const following = fetch(`${two.url}/api/chat/${chat}/stream`).then((response) => folded(response));
      await kill(one.child);
      const message = await following;
      expect([message.text, message.metadata.state]).toEqual([`Booking.${slowText}`, 'completed']);
      expect(readFileSync(effects, 'utf8')).toBe('effect\n');
    });
  });
}

import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { LmdbStateStore } from 'millrace/lmdb';
import { RedisStateStore } from 'millrace/redis';
import type { TaskSummary } from 'millrace/types';
import OpenAI from 'openai';
import { lastValueFrom } from 'rxjs';
import { slowText } from '../front-ends/model.ts';
import { ChildPrograms, kill, nextMessage } from '../stores/lmdb/child-programs.ts';
import { type RedisProcess, startRedis } from '../stores/redis/redis-process.ts';
import { describeReal } from './real-part.ts';

interface Served {
  readonly child: ChildProcess;
  readonly client: OpenAI;
}

const model = 'assistant';

for (const kind of ['lmdb', 'redis'] as const) {
  describeReal(kind === 'redis' ? ['redis'] : [], `two servers of OpenAI's API on one store in ${kind}`, () => {
    const folder = mkdtempSync(join(tmpdir(), 'millrace-openai-'));
    const effects = join(folder, 'effects');
    const programs = new ChildPrograms('tests/front-ends');
    let redis: RedisProcess | undefined;
    let one: Served;
    let two: Served;

    async function serve(): Promise<Served> {
      const child = programs.start('server', redis?.url ?? join(folder, 'store'), '', effects);
      const [url] = await nextMessage(child);
      return { child, client: new OpenAI({ baseURL: `${url}/v1`, apiKey: 'any' }) };
    }

    beforeAll(async () => {
      redis = kind === 'redis' ? await startRedis() : undefined;
      [one, two] = await Promise.all([serve(), serve()]);
    });
    beforeEach(() => writeFileSync(effects, ''));
    afterEach(async () => {
      if (one.child.exitCode !== null || one.child.signalCode !== null) one = await serve();
    });
    afterAll(async () => {
      await programs.clear();
      await redis?.remove();
      rmSync(folder, { recursive: true, force: true });
    });

    const effectsSoFar = () => readFileSync(effects, 'utf8');
    const messages = (content: string) => [{ role: 'user' as const, content }];

    /** The response that a stream has begun, once its text has begun. */
    async function begun(server: Served, input: string): Promise<string> {
      const stream = server.client.responses.stream({ model, input });
      let id = '';
      stream.on('error', () => {});
      for await (const event of stream) {
        if (event.type === 'response.created') id = event.response.id;
        if (event.type === 'response.output_text.delta' && event.delta.includes('word')) return id;
      }
      throw new Error('The stream ended before the text had begun.');
    }

    /** The response, once it is no more in progress. */
    async function over({ client }: Served, id: string): Promise<OpenAI.Responses.Response> {
      for (;;) {
        const response = await client.responses.retrieve(id);
        if (response.status !== 'in_progress') return response;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }

    it('continues at one the conversation of the other', async () => {
      const first = await one.client.responses.create({ model, input: 'answer' });
      const second = await two.client.responses.create({ model, input: 'Thanks', previous_response_id: first.id });
      expect(second).toMatchObject({ status: 'completed', output_text: 'All is done.' });
      expect(await one.client.responses.retrieve(second.id)).toMatchObject({ output_text: 'All is done.' });
    });

    it('V-18 takes the approval that one asked for at both at once, and the tool runs once', async () => {
      const asked = await one.client.responses.create({ model, input: 'refund' });
      const request = asked.output.find((item) => item.type === 'mcp_approval_request');
      const approval = {
        type: 'mcp_approval_response',
        approval_request_id: request?.id ?? '',
        approve: true,
      } as const;
      const both = await Promise.all(
        [two, one].map(({ client }) =>
          client.responses.create({ model, input: [approval], previous_response_id: asked.id }),
        ),
      );
      expect(both).toMatchObject([{ status: 'completed' }, { status: 'completed' }]);
      expect(effectsSoFar()).toBe('effect\n');
    });

    it('cancels at one the response of the other', async () => {
      const id = await begun(one, 'slow');
      await two.client.responses.cancel(id);
      expect((await over(one, id)).status).toBe('cancelled');
    });

    it('completes a response at the other where one is killed in the middle, and no effect runs twice', async () => {
      const id = await begun(one, 'book slow');
      await kill(one.child);
      expect(await over(two, id)).toMatchObject({ status: 'completed', output_text: `Booking.${slowText}` });
      expect(effectsSoFar()).toBe('effect\n');
    });

    it('streams a response at the other from its beginning to its end, where one is killed in the middle', async () => {
      const id = await begun(one, 'book slow');
      await kill(one.child);
      let [text, last] = ['', ''];
      for await (const event of await two.client.responses.retrieve(id, { stream: true })) {
        if (event.type === 'response.output_text.delta') text += event.delta;
        last = event.type;
      }
      expect([text, last, effectsSoFar()]).toEqual([`Booking.${slowText}`, 'response.completed', 'effect\n']);
    });

    it('ends a completion with an error where its server is killed; the same request starts no second turn with its key', async () => {
      const options = { headers: { 'Idempotency-Key': `key-${kind}` } };
      const request = { model, messages: messages('book slow') };
      const stream = await one.client.chat.completions.create({ ...request, stream: true }, options);
      const read = async () => {
        for await (const { choices } of stream)
          if (choices[0]?.delta.content?.includes('word') && !one.child.killed) await kill(one.child);
      };
      await expect(read()).rejects.toThrow();
      const again = await two.client.chat.completions.create(request, options);
      expect(again.choices[0]?.message.content).toBe(`Booking.\n\n${slowText}`);
      expect(effectsSoFar()).toBe('effect\n');
    });

    it('ends a completion whose server was killed, at the other, as canceled', async () => {
      const store = redis
        ? new RedisStateStore({ redis: redis.url })
        : new LmdbStateStore({ path: join(folder, 'store') });
      const before = new Set((await store.list({ limit: 1_000 })).map(({ taskId }) => taskId));
      const request = { model, messages: messages('book slow') };
      const stream = await one.client.chat.completions.create({ ...request, stream: true }, { maxRetries: 0 });
      let running: readonly TaskSummary[] = [];
      const read = async () => {
        for await (const { choices } of stream) {
          if (!choices[0]?.delta.content?.includes('word') || one.child.killed) continue;
          running = (await store.list({ limit: 1_000 })).filter(({ taskId }) => !before.has(taskId));
          await kill(one.child);
        }
      };
      await expect(read()).rejects.toThrow();
      expect(running).toMatchObject([{ state: 'working' }]);
      const [left] = running;
      await lastValueFrom(store.follow(left?.taskId ?? ''), { defaultValue: undefined });
      expect((await store.describe(left?.taskId ?? ''))?.state).toBe('canceled');
      const next = await two.client.chat.completions.create({ model, messages: messages('answer') });
      expect(next.choices[0]?.message.content).toContain('All is done.');
      expect(effectsSoFar()).toBe('effect\n');
      await store.close();
    });

    it('a client that retries by itself after the server died has the effect twice without a key, and once with one', async () => {
      for (const [headers, expected] of [
        [{}, 'effect\neffect\n'],
        [{ 'Idempotency-Key': `retried-${kind}` }, 'effect\n'],
      ] as const) {
        writeFileSync(effects, '');
        const fetches: string[] = [];
        const failover: typeof fetch = async (url, init) => {
          fetches.push(String(url));
          const to = fetches.length === 1 ? one : two;
          return fetch(`${to.client.baseURL}/chat/completions`, init);
        };
        const client = new OpenAI({ baseURL: one.client.baseURL, apiKey: 'any', fetch: failover });
        const asked = client.chat.completions.create({ model, messages: messages('book slow') }, { headers });
        while (effectsSoFar() === '') await new Promise((resolve) => setTimeout(resolve, 20));
        await kill(one.child);
        expect((await asked).choices[0]?.message.content).toContain(slowText);
        expect([fetches.length, effectsSoFar()]).toEqual([2, expected]);
        one = await serve();
      }
    });
  });
}

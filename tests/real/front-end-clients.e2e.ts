import { execFile } from 'node:child_process';
import type { Server } from 'node:http';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { InMemoryStateStore } from 'millrace';
import { assistant } from '../front-ends/model.ts';
import { listening, serverOf } from '../front-ends/node-server.ts';
import { routes } from '../front-ends/routes.ts';
import { describeReal } from './real-part.ts';

const run = promisify(execFile);

interface Part {
  readonly type: string;
  readonly text?: string;
  readonly toolName?: string;
  readonly state?: string;
  readonly output?: unknown;
  readonly input?: unknown;
  readonly providerMetadata?: unknown;
}

interface AiClient {
  readonly messages: readonly {
    readonly id: string;
    readonly role: string;
    readonly parts: readonly Part[];
    readonly metadata?: unknown;
  }[];
  readonly status: string;
  readonly error?: string;
  readonly refused: readonly unknown[];
  readonly kinds: readonly string[];
  readonly bytes: string;
  readonly toolCalls: readonly unknown[];
  readonly posts: number;
}

interface AgUiClient {
  readonly messages: readonly {
    readonly id: string;
    readonly role: string;
    readonly content?: string;
    readonly toolCallId?: string;
  }[];
  readonly types: readonly string[];
  readonly outcomes: readonly string[];
  readonly errors: readonly string[];
  readonly interrupts: readonly unknown[];
}

let effects = 0;
let server: Server;
let url: string;
let close: () => void;
const store = new InMemoryStateStore();

describeReal(['front-ends'], 'clients of front ends', () => {
  beforeAll(async () => {
    const { handler, close: stop } = routes(assistant(store, () => effects++));
    close = stop;
    server = serverOf(handler);
    url = await listening(server);
  });
  beforeEach(() => {
    effects = 0;
  });
  afterAll(() => {
    close?.();
    server?.closeAllConnections();
    server?.close();
  });

  async function printed<T>(program: string, ...args: readonly string[]): Promise<T> {
    const { stdout } = await run(process.execPath, [program, ...args], { cwd: 'tests/front-ends', maxBuffer: 10 ** 8 });
    return JSON.parse(stdout);
  }

  for (const sdk of ['7', '6'] as const) {
    const ask = (...args: readonly string[]) => printed<AiClient>('ai-client.mjs', sdk, url, ...args);

    it(`V-01 ai ${sdk} shows text, reasoning and two parallel tools with their results; each chunk passes its schema`, async () => {
      const { messages, refused, status, toolCalls, posts } = await ask(`answer ${sdk}`);
      expect([refused, status, toolCalls, posts]).toEqual([[], 'ready', [], 1]);
      expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant']);
      const parts = messages[1]?.parts.filter(({ type }) => type !== 'step-start');
      expect(parts).toMatchObject([
        { type: 'reasoning', text: 'Hm.' },
        { type: 'text', text: 'Let me look.' },
        {
          type: 'dynamic-tool',
          toolName: 'look_up',
          state: 'output-available',
          input: { of: 'apples' },
          output: 'found apples',
        },
        {
          type: 'dynamic-tool',
          toolName: 'look_up',
          state: 'output-available',
          input: { of: 'pears' },
          output: 'found pears',
        },
        { type: 'text', text: 'All is done.' },
      ]);
    });

    it(`V-02 ai ${sdk} goes on in the same message after an approval, and the tool runs once`, async () => {
      const { messages, refused, posts } = await ask(`refund ${sdk}`, 'approve');
      expect([refused, posts, effects]).toEqual([[], 2, 1]);
      expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant']);
      const parts = messages[1]?.parts.filter(({ type }) => type !== 'step-start');
      expect(parts).toMatchObject([
        { type: 'text', text: 'I will.' },
        { type: 'dynamic-tool', state: 'output-available', output: 'refunded' },
        { type: 'text', text: 'All is done.' },
      ]);
    });

    it(`V-02 ai ${sdk} shows a rejected call as denied`, async () => {
      const { messages, refused } = await ask(`refund ${sdk} not`, 'reject');
      expect([refused, effects]).toEqual([[], 0]);
      expect(messages[1]?.parts.filter(({ type }) => type === 'dynamic-tool')).toMatchObject([
        { state: 'output-denied' },
      ]);
    });

    it(`V-07 ai ${sdk} gets a sentence for a turn that fails, and no word of the error`, async () => {
      const { status, error, bytes, refused } = await ask(`fail ${sdk}`);
      expect([status, error, refused]).toEqual(['error', 'Something went wrong.', []]);
      expect(bytes).not.toContain('SECRET');
    });
  }

  it('V-06 ai 7 has only the new text after half a text, ai 6 marks the old part', async () => {
    const texts = ({ messages }: AiClient) => messages[1]?.parts.filter(({ type }) => type === 'text');
    // One after the other: the model fails once for all.
    const seven = await printed<AiClient>('ai-client.mjs', '7', url, 'half');
    expect([seven.refused, seven.kinds]).toEqual([[], expect.arrayContaining(['reset-step'])]);
    expect(texts(seven)).toMatchObject([{ text: 'Whole.' }]);
    const again = routes(assistant(new InMemoryStateStore()));
    const other = serverOf(again.handler);
    const six = await printed<AiClient>('ai-client.mjs', '6', await listening(other), 'half');
    again.close();
    other.close();
    expect(six.refused).toEqual([]);
    expect(texts(six)).toMatchObject([
      { text: 'Void ', providerMetadata: { millrace: { void: true } } },
      { text: 'Whole.' },
    ]);
  });

  const askAgUi = (...args: readonly string[]) => printed<AgUiClient>('ag-ui-client.mjs', url, ...args);

  it('V-14 HttpAgent shows text, reasoning and tools, and its verifier raises nothing', async () => {
    const { messages, errors, outcomes } = await askAgUi('answer');
    expect([errors, outcomes]).toEqual([[], ['success']]);
    expect(messages.map(({ role, content }) => `${role} ${content ?? ''}`)).toEqual([
      'user answer',
      'reasoning Hm.',
      'assistant Let me look.',
      'assistant ',
      'tool found apples',
      'tool found pears',
      'assistant All is done.',
    ]);
  });

  it('V-14 HttpAgent holds an interrupt, and a second run with its answer finishes without a duplicate', async () => {
    const { messages, errors, outcomes, interrupts } = await askAgUi('refund', 'approve');
    expect([errors, outcomes, effects]).toEqual([[], ['interrupt', 'success'], 1]);
    expect(interrupts).toMatchObject([{ reason: 'approval' }]);
    expect(new Set(messages.map(({ id }) => id)).size).toBe(messages.length);
    expect(messages.map(({ role, content }) => `${role} ${content ?? ''}`)).toEqual([
      'user refund',
      'assistant I will.',
      'assistant ',
      'tool refunded',
      'assistant All is done.',
    ]);
  });

  it('V-14 HttpAgent cancels an interrupt, and the call is rejected', async () => {
    const { errors, outcomes } = await askAgUi('refund not', 'reject');
    expect([errors, outcomes, effects]).toEqual([[], ['interrupt', 'success'], 0]);
  });

  it('V-14 HttpAgent gets the code of a failure', async () => {
    const { errors, types } = await askAgUi('fail');
    expect(types.at(-1)).toBe('RUN_ERROR');
    expect(errors).toContain('PROVIDER_FAILED');
  });

  it('V-06 HttpAgent has no void text among its messages', async () => {
    const fresh = routes(assistant(new InMemoryStateStore()));
    const other = serverOf(fresh.handler);
    const client = await printed<AgUiClient>('ag-ui-client.mjs', await listening(other), 'half');
    fresh.close();
    other.close();
    expect(client.errors).toEqual([]);
    expect(client.types).toContain('MESSAGES_SNAPSHOT');
    expect(client.messages.map(({ content }) => content)).toEqual(['half', 'Whole.']);
  });

  it('V-14 a run that HttpAgent aborts cancels its turn, with onDisconnect cancel', async () => {
    const own = new InMemoryStateStore();
    const fresh = routes(assistant(own), { onDisconnect: 'cancel' });
    const other = serverOf(fresh.handler);
    await printed<AgUiClient>('ag-ui-client.mjs', await listening(other), 'slow', 'abort');
    while ((await own.list())[0]?.state !== 'canceled') await new Promise((resolve) => setImmediate(resolve));
    fresh.close();
    other.close();
  });
});

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  AgentLoopError,
  agent,
  InMemoryMessageStore,
  InMemoryStateStore,
  type Message,
  type MessageStore,
  tool,
} from 'millrace';
import { fittingMessages, storeTurn } from 'millrace/internals';
import { PostgresMessageStore } from 'millrace/postgres';
import { type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import { type storeTypes, withStores } from '../stores/messages/every-store.ts';
import { describePostgres } from '../stores/postgres/describe-postgres.ts';
import { type PostgresProcess, startPostgres } from '../stores/postgres/postgres-process.ts';
import { describeRedis } from '../stores/redis/describe-redis.ts';

const Mi = 1024 * 1024;
const long = (length: number) => 'x'.repeat(length);
const image = { type: 'image_url' as const, image_url: { url: `data:image/png;base64,${long(4)}` } };
const withMetadata = (metadata: Record<string, unknown>): Message[] => [{ role: 'user', content: 'Hi', metadata }];
const nested = (depth: number) => {
  let value: unknown = 'x';
  for (let level = 0; level < depth; level++) value = [value];
  return value;
};

interface Row {
  readonly input?: string | readonly Message[];
  readonly steps?: readonly ScriptedLLMStep[];
  /** What the tool returns. */
  readonly output?: string;
  /** The messages of the turn. */
  readonly messages?: number;
}

const calls = (count: number, args: Record<string, unknown> = {}) => ({
  toolCalls: Array.from({ length: count }, () => ({ name: 'look', arguments: args })),
});

/** Values that a turn accepts, and that a store of conversations refuses as they are. */
const rows: Readonly<Record<string, Row>> = {
  'a date in metadata': { input: withMetadata({ at: new Date(0) }) },
  'a number that JSON lacks': { input: withMetadata({ at: [Number.NaN, undefined] }) },
  'a function beside the content': {
    input: [Object.assign({ role: 'user' as const, content: 'Hi' }, { retry: () => 1 })],
  },
  'a long question': { input: long(33 * Mi) },
  'long metadata': { input: withMetadata({ at: long(33 * Mi) }) },
  'a large picture': {
    input: [{ role: 'user', content: [{ ...image, image_url: { url: `data:image/png;base64,${long(33 * Mi)}` } }] }],
  },
  'a question whose JSON is longer than its text': { input: '\u0001'.repeat(6 * Mi) },
  'a long answer': { steps: [{ text: long(33 * Mi) }] },
  'long arguments': { steps: [calls(1, { at: long(33 * Mi) }), { text: 'Done.' }], messages: 4 },
  'results that are long together': { steps: [calls(9), { text: 'Done.' }], output: long(4 * Mi), messages: 12 },
};

const saw: ScriptedLLMStep = ({ messages }) => ({ text: `saw ${messages.length}` });

/** One turn of a context, then another. */
async function continues(messageStore: MessageStore, { input = 'Hi', steps = [{ text: 'Hello.' }], ...row }: Row) {
  const look = tool({
    name: 'look',
    description: 'Looks.',
    parameters: { type: 'object' },
    execute: () => row.output ?? 'Seen.',
  });
  const warned: string[] = [];
  const logger = { debug: () => {}, info: () => {}, warn: (text: string) => warned.push(text), error: () => {} };
  const ada = agent({
    id: 'ada',
    contextId: 'c',
    provider: scriptedLLM([...steps, saw]),
    messageStore,
    taskStateStore: new InMemoryStateStore(),
    contextManagement: null,
    logger,
    tools: [look],
  });
  const first = await ada.startTurn(input).result();
  const second = await ada.startTurn('And?').result();
  expect([first.status, second.status]).toEqual(['completed', 'completed']);
  expect(second.text).toBe(`saw ${(row.messages ?? 2) + 1}`);
  expect(warned).toEqual(['messages shortened']);
  return { ...(await messageStore.load('c')), first };
}

const lengthOf = (value: unknown) => JSON.stringify(value).length;

describe('R-03 a turn that its conversation refuses as it is', () => {
  it.each(Object.entries(rows))(
    'R-03 with %s is stored in a form that fits, and the next turn works',
    async (_, row) => {
      const { messages, total } = await continues(new InMemoryMessageStore(), row);
      expect(total).toBe((row.messages ?? 2) + 2);
      expect(lengthOf(messages)).toBeLessThan(33 * Mi);
    },
  );

  const inStores = ['a date in metadata', 'a long question', 'results that are long together'];
  const cases = (types: readonly (typeof storeTypes)[number][]) =>
    types.flatMap((type) => inStores.map((name) => [type, name] as const));
  it.each(cases(['lmdb']))('R-03 in %s: %s', async (type, name) => {
    await withStores(type, async (store) => void (await continues(store, rows[name] ?? {})));
  });

  describeRedis('in Redis', () => {
    it.each(cases(['redis']))('R-03 in %s: %s', async (type, name) => {
      await withStores(type, async (store) => void (await continues(store, rows[name] ?? {})));
    });
  });

  describePostgres('in PostgreSQL', () => {
    let postgres: PostgresProcess;
    beforeAll(async () => {
      postgres = await startPostgres();
    });
    afterAll(() => postgres.remove());

    it.each(inStores.map((name, index) => [name, index] as const))('R-03 in postgres: %s', async (name, index) => {
      const store = new PostgresMessageStore({ postgres: postgres.url, schema: `case_${index}`, migrate: true });
      await continues(store, rows[name] ?? {}).finally(() => store.close());
    });
  });

  it('R-03 keeps what the user and the model said, and shortens what tools returned', async () => {
    // Longer than any result: the largest message is not what is shortened first.
    const input = long(5 * Mi);
    const { messages, first } = await continues(new InMemoryMessageStore(), {
      ...rows['results that are long together'],
      input,
    });
    expect([messages[0]?.role, messages[0]?.content === input]).toEqual(['user', true]);
    expect(messages[11]).toMatchObject({ role: 'assistant', content: 'Done.' });
    expect(messages[2]?.content).toContain('characters left out');
    expect(first.messages.filter(({ content }) => content?.length === 4 * Mi)).toHaveLength(9);
  });

  it.each([
    ['fewer characters', (messages: readonly Message[]) => lengthOf(messages) > 5_000],
    ['fewer characters than the shortest forms have', (messages: readonly Message[]) => messages.length > 0],
    ['no metadata', (messages: readonly Message[]) => messages.some(({ metadata }) => metadata)],
    ['no pictures', (messages: readonly Message[]) => messages.some(({ content }) => Array.isArray(content))],
  ])(
    'R-03 a store of the application that accepts %s: the next turn works, also with an error of its own',
    async (_, refuses) => {
      for (const error of [new Error('value too long for type'), new AgentLoopError('INVALID_INPUT', 'Too long.')]) {
        const store = new InMemoryMessageStore();
        const append: MessageStore['append'] = (contextId, taskId, messages, options) => {
          if (refuses(messages)) throw error;
          return store.append(contextId, taskId, messages, options);
        };
        const messageStore: MessageStore = Object.assign(Object.create(store), {
          append,
          begin: store.begin.bind(store),
          load: store.load.bind(store),
        });
        const input: Message[] = [
          { role: 'user', content: [{ type: 'text', text: long(6_000) }, image], metadata: { page: 1 } },
        ];
        const provider = scriptedLLM([{ text: 'Hello.' }, { text: 'Yes.' }]);
        const ada = agent({ id: 'ada', contextId: 'c', provider, messageStore });
        await ada.startTurn(input).result();
        expect(await ada.startTurn('And?').result()).toMatchObject({ status: 'completed', text: 'Yes.' });
      }
    },
  );

  it('R-03 is stored by the next turn where the process that ran it could not', async () => {
    const store = new InMemoryMessageStore();
    let isAway = true;
    const append: MessageStore['append'] = (...given) => {
      if (isAway) throw new AgentLoopError('UNAVAILABLE', 'Away.', { retryable: true });
      return store.append(...given);
    };
    const messageStore: MessageStore = Object.assign(Object.create(store), {
      append,
      begin: store.begin.bind(store),
      load: store.load.bind(store),
    });
    const provider = scriptedLLM([{ text: 'Hello.' }, saw]);
    const ada = agent({ id: 'ada', contextId: 'c', provider, messageStore, taskStateStore: new InMemoryStateStore() });
    await ada.startTurn(withMetadata({ at: new Date(0) })).result();
    expect(store.load('c').total).toBe(0);
    isAway = false;
    expect(await ada.startTurn('And?').result()).toMatchObject({ text: 'saw 3' });
    expect(store.load('c').messages[0]?.metadata).toEqual({ at: '1970-01-01T00:00:00.000Z' });
  });

  it('R-03 is not shortened for an error that another attempt may not have', async () => {
    const asked: number[] = [];
    const away = new AgentLoopError('UNAVAILABLE', 'Away.', { retryable: true });
    const stored = storeTurn(
      ({ messages }) => {
        asked.push(messages.length);
        throw away;
      },
      { messages: [{ role: 'user', content: 'Hi' }] },
    );
    await expect(stored).rejects.toBe(away);
    expect(asked).toEqual([1]);
  });

  it('R-03 is refused with the first error of a store that refuses everything', async () => {
    let attempts = 0;
    const stored = storeTurn(
      () => {
        attempts += 1;
        throw new AgentLoopError('INVALID_INPUT', `Refusal ${attempts}.`);
      },
      { messages: [{ role: 'user', content: 'Hi' }] },
    );
    await expect(stored).rejects.toMatchObject({ message: 'Refusal 1.' });
    expect(attempts).toBeGreaterThan(1);
  });

  it.each([
    ['a bigint', { at: 1n }],
    [
      'a value that contains itself',
      Object.assign(
        {},
        {
          get at(): unknown {
            return this;
          },
        },
      ),
    ],
    ['20,000 levels', { at: nested(20_000) }],
  ])(
    'R-03 a message whose metadata have %s, which no store can hold, is refused before the turn begins',
    async (_, metadata) => {
      const provider = scriptedLLM([]);
      const ada = agent({ id: 'ada', contextId: 'c', provider });
      await expect((async () => ada.startTurn(withMetadata(metadata)).result())()).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        message: expect.stringMatching(/^messages\[0\]\.metadata.*cannot be written as JSON/),
      });
    },
  );

  it('R-03 an agent whose id no conversation can name is refused when it is made', () => {
    expect(() => agent({ id: long(257), provider: scriptedLLM([]) })).toThrow('more than 256 characters');
  });
});

const text = fc.string({ unit: 'binary', maxLength: 3_000 });
const message: fc.Arbitrary<Message> = fc.oneof(
  fc.record({ role: fc.constantFrom('user' as const, 'system' as const), content: text }),
  fc.record({
    role: fc.constant('user' as const),
    content: fc.array(fc.oneof(fc.record({ type: fc.constant('text' as const), text }), fc.constant(image)), {
      maxLength: 3,
    }),
    metadata: fc.record({ note: text }),
  }),
  fc.record({
    role: fc.constant('assistant' as const),
    content: fc.option(text),
    reasoning: text,
    toolCalls: fc.array(
      fc.record({
        id: fc.constantFrom('a', 'b'),
        type: fc.constant('function' as const),
        function: fc.record({ name: fc.constant('look'), arguments: text }),
      }),
      { maxLength: 3 },
    ),
  }),
  fc.record({ role: fc.constant('tool' as const), toolCallId: fc.constantFrom('a', 'b'), content: text }),
);

/** What the next turn needs: who spoke, and which result is that of which call. */
const shapeOf = (messages: readonly Message[]) =>
  messages.map((each) => [
    each.role,
    each.role === 'tool' && each.toolCallId,
    each.role === 'assistant' && each.toolCalls?.map(({ id }) => id),
  ]);

describe('fittingMessages', () => {
  it('R-03 fits messages of every form into a limit, in their order, with their calls', () => {
    fc.assert(
      fc.property(fc.array(message, { maxLength: 8 }), fc.integer({ min: 6_000, max: 20_000 }), (messages, most) => {
        const fitting = fittingMessages(messages, most);
        const sizes = fitting.map(lengthOf).reduce((sum, size) => sum + size, 0);
        expect(sizes).toBeLessThanOrEqual(most);
        expect(shapeOf(fitting)).toEqual(shapeOf(messages));
        expect(new InMemoryMessageStore().append('c', 't', fitting)).toEqual({ appended: true });
      }),
      { numRuns: 200 },
    );
  });

  it('R-03 changes nothing that fits', () => {
    const messages: Message[] = [{ role: 'user', content: 'Hi' }];
    expect(fittingMessages(messages, 1_000)).toBe(messages);
  });
});

describe('the metadata of a context', () => {
  const compaction = { upTo: 1, summary: long(500_000) };

  it('R-03 have room for the summary of the engine beside as much as the application may keep', () => {
    const store = new InMemoryMessageStore();
    const notes = long(Mi - 20);
    expect(store.setMetadata('c', { notes })).toBe(1);
    expect(store.setMetadata('c', { notes, compaction, 'millrace.call': 'k' })).toBe(2);
    expect(() => store.setMetadata('c', { notes: long(Mi), compaction })).toThrow('more than 1048576');
    expect(() => store.setMetadata('c', { compaction: { ...compaction, summary: long(Mi) } })).toThrow(
      'more than 1048576',
    );
  });

  it.each([300_000, 50_000, 10_000])('R-03 keep a summary that fits into a store of %d characters', async (most) => {
    const store = new InMemoryMessageStore();
    const setMetadata: MessageStore['setMetadata'] = (contextId, metadata, options) => {
      if (lengthOf(metadata) > most) throw new AgentLoopError('INVALID_INPUT', 'Too long.');
      return store.setMetadata(contextId, metadata, options);
    };
    const messageStore: MessageStore = Object.assign(Object.create(store), {
      setMetadata,
      append: store.append.bind(store),
      begin: store.begin.bind(store),
      load: store.load.bind(store),
    });
    const summary = long(400_000);
    const summaries: number[] = [];
    const answer: ScriptedLLMStep = ({ messages }) => {
      if (!String(messages[0]?.content).includes('takes notes')) return { text: long(4_000) };
      summaries.push(messages.length);
      return { text: summary };
    };
    const options = {
      contextWindow: 2_000,
      threshold: 0.5,
      keepLast: 1,
      prompt: 'It takes notes.',
      countTokens: shortCount,
    };
    const ada = agent({
      id: 'ada',
      contextId: 'c',
      provider: scriptedLLM(Array.from({ length: 12 }, () => answer)),
      messageStore,
      contextManagement: { compaction: options },
    });
    for (const question of ['One', 'Two', 'Three']) await ada.run(question);
    await ada.close();
    expect(summaries.length).toBeGreaterThan(0);
    const { metadata } = store.load('c');
    expect(metadata).toMatchObject({ compaction: { summary: expect.stringContaining('characters left out') } });
    expect(lengthOf(metadata)).toBeLessThanOrEqual(most);
  });
});

/** Counts a message of 4,000 characters as 1,000 tokens, and longer ones as short. */
function shortCount(given: string | Message): number {
  const size = typeof given === 'string' ? given.length : String(given.content).length;
  return size > 10_000 ? 10 : Math.ceil(size / 4);
}

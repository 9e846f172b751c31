import { describe, expect, it } from '@jest/globals';
import {
  agent,
  doneTool,
  type Extension,
  guardrails,
  InMemoryMessageStore,
  InMemoryStateStore,
  TaskComplete,
  TurnError,
  tool,
} from 'millrace';
import { inspectHandler } from 'millrace/inspect';
import { type LLMStep, scriptedLLM } from 'millrace/testing';
import { lastValueFrom, toArray } from 'rxjs';
import { frontEnds, textsIn } from './front-end-readers.ts';

const runs = (execute: () => unknown) => [
  tool({ name: 't', description: 'A tool.', parameters: { type: 'object', properties: {} }, execute }),
];
const calls: LLMStep = { text: 'working', toolCalls: [{ name: 't', arguments: {} }] };
const done = (message: string): LLMStep => ({ text: 'x', toolCalls: [{ name: 'done', arguments: { message } }] });
const completes = (message?: string) => () => {
  throw new TaskComplete(message);
};

interface End {
  readonly steps: readonly LLMStep[];
  readonly options?: {
    readonly tools?: ReturnType<typeof runs>;
    readonly extensions?: readonly Extension[];
    readonly maxIterations?: number;
    readonly onLimit?: 'summarize' | 'stop';
    readonly retry?: null;
    readonly outputSchema?: typeof outputSchema;
  };
}

const afterTurn: Extension = { name: 'f', afterTurn: () => ({ text: 'ANSWER' }) };
const summarize = { maxIterations: 1, onLimit: 'summarize' as const, tools: runs(() => 1) };

const ends: Readonly<Record<string, End>> = {
  'an answer of the model': { steps: [{ text: 'ANSWER' }] },
  'a summary at the limit': { steps: [calls, { text: 'ANSWER' }], options: summarize },
  'the sentence that stands for a summary': {
    steps: [calls, { error: new Error('no') }],
    options: { ...summarize, retry: null },
  },
  'the text of the last call at the limit': {
    steps: [calls],
    options: { maxIterations: 1, onLimit: 'stop', tools: runs(() => 1) },
  },
  TaskComplete: { steps: [calls], options: { tools: runs(completes('ANSWER')) } },
  doneTool: { steps: [done('ANSWER')], options: { extensions: [doneTool()] } },
  'finish of afterIteration': {
    steps: [calls],
    options: {
      tools: runs(() => 1),
      extensions: [{ name: 'f', afterIteration: () => ({ finish: { text: 'ANSWER' } }) }],
    },
  },
  'finish after an answer': {
    steps: [{ text: 'raw' }],
    options: { extensions: [{ name: 'f', afterIteration: () => ({ finish: { text: 'ANSWER' } }) }] },
  },
  'afterTurn after an answer': { steps: [{ text: 'raw' }], options: { extensions: [afterTurn] } },
  'afterTurn after a summary': {
    steps: [calls, { text: 'raw' }],
    options: { ...summarize, extensions: [afterTurn] },
  },
};

function chat({ steps, options }: End) {
  const model = scriptedLLM([...steps, { text: 'second' }]);
  const messageStore = new InMemoryMessageStore();
  const store = new InMemoryStateStore();
  const asked = agent({ id: 'a', provider: model, messageStore, taskStateStore: store, contextId: 'c', ...options });
  return { model, messageStore, store, asked };
}

describe('the final answer', () => {
  it.each(Object.entries(ends))('R-01 is one thing for all who read it: %s', async (_, end) => {
    const { model, messageStore, asked } = chat(end);
    const turn = asked.startTurn('q');
    const { text, message, messages, allText } = await turn.result();
    expect(text).not.toBe('');
    expect(message?.content).toBe(text);
    const { content, toolCalls = [] } = turn.state?.lastResponse?.message ?? {};
    if (turn.state?.summary === false && toolCalls.length === 0) expect(content).toBe(text);
    expect(messages.filter(({ role, content }) => role === 'assistant' && content === text)).toHaveLength(1);
    expect(allText.endsWith(text)).toBe(true);
    const stored = (await messageStore.load('c')).messages;
    expect(stored.filter(({ role, content }) => role === 'assistant' && content === text)).toHaveLength(1);
    await asked.run('and now?');
    const next = model.calls.at(-1)?.messages ?? [];
    expect(next.filter(({ role, content }) => role === 'assistant' && content === text)).toHaveLength(1);
    expect(next.at(-1)).toMatchObject({ role: 'user', content: 'and now?' });
  });
});

/** Ends whose answer differs from what was streamed: the stream of a completion or a response errors there, since it cannot be taken back. */
const isReplaced = ({ steps }: End) => JSON.stringify(steps).includes('raw');
const shown = Object.keys(frontEnds).flatMap((reader) =>
  Object.entries(ends)
    .filter(([, end]) => !reader.includes('streamed ') || !isReplaced(end))
    .map(([name, end]) => [reader, name, end] as const),
);

describe('the final answer, shown', () => {
  it.each(Object.entries(ends))(
    'R-01 has the texts of the result in live and in observed events: %s',
    async (_, end) => {
      const { asked } = chat(end);
      const turn = asked.startTurn('q');
      const live = await lastValueFrom(turn.pipe(toArray()));
      const { allText, taskId } = await turn.result();
      expect(textsIn(live).join('\n')).toBe(allText);
      expect(textsIn(await lastValueFrom(asked.observe(taskId).pipe(toArray()))).join('\n')).toBe(allText);
    },
  );

  it.each(shown)('R-01 has the texts of the result in %s: %s', async (reader, _, end) => {
    const { allText } = await chat(end).asked.run('q');
    const texts = (await frontEnds[reader]?.(chat(end).asked)) ?? [];
    const times = /and/.test(reader) ? 2 : 1;
    expect(texts).toEqual(Array.from({ length: times }, () => allText.split('\n')).flat());
  });
});

const secret = 'The PIN is P-4711-N.';
const pin = guardrails({
  output: [{ name: 'pin', check: (text) => (text.includes('PIN') ? { replace: 'I cannot say that.' } : undefined) }],
});

/** Every way in which a turn can answer with the secret, checked by this guardrail. */
const leaks = (pin: Extension): Readonly<Record<string, End>> => ({
  'an answer of the model': { steps: [{ text: secret }], options: { extensions: [pin] } },
  'a text beside calls': {
    steps: [{ ...calls, text: secret }],
    options: { tools: runs(completes()), extensions: [pin] },
  },
  doneTool: { steps: [done(secret)], options: { extensions: [doneTool(), pin] } },
  TaskComplete: { steps: [calls], options: { tools: runs(completes(secret)), extensions: [pin] } },
  'a summary at the limit': { steps: [calls, { text: secret }], options: { ...summarize, extensions: [pin] } },
});
/** A value is not a text to replace. */
const valueLeak = (pin: Extension): Readonly<Record<string, End>> => ({
  'a value': { steps: [gives('P-4711-N')], options: { outputSchema, extensions: [pin] } },
});

/** What others than the owner of the journal can read of the turn, and of the next one. */
async function readable({ model, messageStore, store, asked }: ReturnType<typeof chat>, taskId: string) {
  const replay = await lastValueFrom(asked.observe(taskId).pipe(toArray()));
  expect(replay.at(-1)).toMatchObject({ final: true });
  const shown = async (raw: boolean, route: string) => {
    const handler = inspectHandler({ store, raw, authorize: () => true });
    const answer = await handler(new Request(`http://localhost/api/tasks/${encodeURIComponent(taskId)}/${route}`));
    expect(answer.status).toBe(200);
    return answer.text();
  };
  expect(await shown(true, 'export')).toContain('P-4711-N');
  const pages = await Promise.all(['', 'rows', 'messages', 'export'].map((route) => shown(false, route)));
  const stored = await messageStore.load('c');
  await asked.run('and now?').catch(() => undefined);
  return JSON.stringify([replay, pages, stored, model.calls.at(-1)?.messages]);
}

describe('an answer that a guardrail replaces', () => {
  it.each(Object.entries(leaks(pin)))('R-02 is gone everywhere but in the journal: %s', async (_, end) => {
    const chatted = chat(end);
    const result = await chatted.asked.run('What is the PIN?');
    expect(result.text).toBe('I cannot say that.');
    expect(JSON.stringify(result)).not.toContain('P-4711-N');
    expect(await readable(chatted, result.taskId)).not.toContain('P-4711-N');
  });

  const read = Object.keys(frontEnds).filter((reader) => !reader.includes('streamed '));
  const leaked = read.flatMap((reader) =>
    Object.entries(leaks(pin)).map(([name, end]) => [reader, name, end] as const),
  );
  it.each(leaked)('R-02 is gone from %s: %s', async (reader, _, end) => {
    const texts = (await frontEnds[reader]?.(chat(end).asked)) ?? [];
    expect(texts.at(-1)).toBe('I cannot say that.');
    expect(JSON.stringify(texts)).not.toContain('P-4711-N');
  });
});

const anyPin = (text: string, { value }: { readonly value: unknown }) =>
  `${text} ${JSON.stringify(value)}`.includes('P-4711-N');
const again = guardrails({
  output: [
    { name: 'pin', check: (text, context) => (anyPin(text, context) ? { retry: 'Without the PIN.' } : undefined) },
  ],
});
const outputSchema = { type: 'object', properties: { pin: { type: 'string' } }, required: ['pin'] } as const;
const gives = (pin: string): LLMStep => ({ toolCalls: [{ name: '__finish__', arguments: { pin } }] });

/** Answers of the turn, some refused by the guardrail; with the last one it completes. */
const retried: Readonly<Record<string, End>> = {
  'an answer of the model': { steps: [{ text: secret }, { text: 'fine' }], options: { extensions: [again] } },
  'an answer, twice': {
    steps: [{ text: secret }, { text: 'It is P-4711-N.' }, { text: 'fine' }],
    options: { extensions: [again] },
  },
  doneTool: { steps: [done(secret), done('fine')], options: { extensions: [doneTool(), again] } },
  'a value': { steps: [gives('P-4711-N'), gives('fine')], options: { outputSchema, extensions: [again] } },
};

describe('an answer that a guardrail refuses with retry', () => {
  it.each(Object.entries(retried))('R-02 is gone everywhere but in the journal after the end: %s', async (_, end) => {
    const chatted = chat(end);
    const result = await chatted.asked.run('What is the PIN?');
    expect(JSON.stringify([result.text, result.value])).toContain('fine');
    const sent = chatted.model.calls.at(-1)?.messages ?? [];
    expect(JSON.stringify(sent)).toContain('P-4711-N');
    expect(JSON.stringify(result)).not.toContain('P-4711-N');
    expect(await readable(chatted, result.taskId)).not.toContain('P-4711-N');
  });

  it.each(Object.entries(retried))('R-02 is gone when every attempt is refused: %s', async (_, end) => {
    const refusedAlways = {
      ...end,
      steps: [...end.steps.slice(0, 1), ...end.steps.slice(0, 1), ...end.steps.slice(0, 1)],
    };
    const chatted = chat(refusedAlways);
    const error = await chatted.asked.run('What is the PIN?').catch((thrown: unknown) => thrown);
    if (!(error instanceof TurnError)) throw error;
    expect(error.code).toBe('GUARDRAIL');
    expect(JSON.stringify(error.result)).not.toContain('P-4711-N');
    expect(await readable(chatted, error.result.taskId)).not.toContain('P-4711-N');
  });

  it('R-02 is the answer if it is accepted in the end', async () => {
    const sure: Extension = {
      name: 'sure',
      beforeFinish: ({ data }) =>
        data === undefined
          ? { messages: [{ role: 'user', content: 'Sure?' }], withhold: true, data: 'asked' }
          : undefined,
    };
    const chatted = chat({ steps: [{ text: 'Yes.' }, { text: 'Yes.' }], options: { extensions: [sure] } });
    const { text, message } = await chatted.asked.run('q');
    expect([text, message?.content]).toEqual(['Yes.', 'Yes.']);
  });

  it('R-02 is refused for a change that asks for no other answer', async () => {
    const extensions: readonly Extension[] = [{ name: 'w', beforeFinish: () => ({ withhold: true }) }];
    const { asked } = chat({ steps: [{ text: 'Yes.' }], options: { extensions } });
    await expect(asked.run('q')).rejects.toMatchObject({
      code: 'EXTENSION_FAILED',
      message: expect.stringContaining('withhold needs messages'),
    });
  });
});

describe('a value that an extension replaces', () => {
  const masks: Readonly<Record<string, Extension>> = {
    'a guardrail': guardrails({
      output: [
        {
          name: 'mask',
          check: (text, context) => (anyPin(text, context) ? { replace: text, value: { pin: '****' } } : undefined),
        },
      ],
    }),
    afterTurn: { name: 'mask', afterTurn: () => ({ value: { pin: '****' } }) },
  };

  it.each(Object.entries(masks))('R-02 is gone everywhere but in the journal: %s', async (_, mask) => {
    const chatted = chat({ steps: [gives('P-4711-N')], options: { outputSchema, extensions: [mask] } });
    const result = await chatted.asked.run('What is the PIN?');
    expect(result.value).toEqual({ pin: '****' });
    expect(JSON.stringify(result)).not.toContain('P-4711-N');
    expect(await readable(chatted, result.taskId)).not.toContain('P-4711-N');
  });
});

const refused = (check: () => { readonly block: string }) => guardrails({ output: [{ name: 'pin', check }] });
const refusals: Readonly<Record<string, readonly [Extension, code: string]>> = {
  'a guardrail blocks': [refused(() => ({ block: 'no pins' })), 'GUARDRAIL'],
  'a guardrail cannot check': [
    refused(() => {
      throw new Error('the classifier is away');
    }),
    'EXTENSION_FAILED',
  ],
  'an extension rejects': [
    { name: 'r', afterTurn: () => ({ fail: { code: 'REJECTED', message: 'not here' } }) },
    'REJECTED',
  ],
};
const refusedEnds = Object.entries(refusals).flatMap(([how, [extension, code]]) =>
  Object.entries({ ...leaks(extension), ...valueLeak(extension) }).map(
    ([what, end]) => [`${what}, ${how}`, end, code] as const,
  ),
);

describe('an answer that is refused', () => {
  it.each(refusedEnds)('R-02 is gone everywhere but in the journal: %s', async (_, end, code) => {
    const chatted = chat(end);
    const error = await chatted.asked.run('What is the PIN?').catch((thrown: unknown) => thrown);
    if (!(error instanceof TurnError)) throw error;
    const { result } = error;
    expect(error.code).toBe(code);
    expect(JSON.stringify(result)).not.toContain('P-4711-N');
    expect(await readable(chatted, result.taskId)).not.toContain('P-4711-N');
  });
});

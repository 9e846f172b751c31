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
    const { text, message, messages, allText } = await asked.run('q');
    expect(text).not.toBe('');
    expect(message?.content).toBe(text);
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

const secret = 'The PIN is 4711.';
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
  expect(await shown(true, 'export')).toContain('4711');
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
    expect(JSON.stringify(result)).not.toContain('4711');
    expect(await readable(chatted, result.taskId)).not.toContain('4711');
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
  Object.entries(leaks(extension)).map(([what, end]) => [`${what}, ${how}`, end, code] as const),
);

describe('an answer that is refused', () => {
  it.each(refusedEnds)('R-02 is gone everywhere but in the journal: %s', async (_, end, code) => {
    const chatted = chat(end);
    const error = await chatted.asked.run('What is the PIN?').catch((thrown: unknown) => thrown);
    if (!(error instanceof TurnError)) throw error;
    const { result } = error;
    expect(error.code).toBe(code);
    expect(JSON.stringify(result)).not.toContain('4711');
    expect(await readable(chatted, result.taskId)).not.toContain('4711');
  });
});

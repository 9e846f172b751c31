import { describe, expect, it } from '@jest/globals';
import { fromAsyncIterable, type LLMChunk, type LLMProvider } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate, scriptedLLM } from 'millrace/testing';
import { Observable } from 'rxjs';
import { question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { turnBench } from './turn-bench.ts';
import { ofRecords, outlineOf, textOfParts, textsOf, watch } from './watch-events.ts';

const bench = turnBench();

function startWith(llmProvider: LLMProvider, taskId = 't') {
  const toolProviders = [plainTools({ count: () => 2 })];
  const turn = new AgentLoop(bench.config(llmProvider, { toolProviders })).startTurn(question, {
    taskId,
    contextId: 'c',
  });
  return { turn, watcher: watch(turn) };
}

describe('a streamed answer', () => {
  it('S3-31 S3-32 S4-31 S1-42 is shown chunk by chunk, each before the next is produced', async () => {
    const pieces = ['One', ', two', ', three', ', four', ', five'];
    const gates = pieces.map(() => gate());
    const text = pieces.flatMap((piece, index) => [piece, gates[index]?.pass() ?? Promise.resolve()]);
    const { turn, watcher } = startWith(bench.model([{ text }]));
    for (const [index, piece] of pieces.entries()) {
      const shown = await watcher.until('artifact-update', (event) => textOfParts(event) === piece);
      expect(shown).toMatchObject({
        taskId: 't',
        artifact: { artifactId: 'answer-1' },
        append: index > 0,
        lastChunk: false,
      });
      expect(watcher.of('artifact-update')).toHaveLength(index + 1);
      gates[index]?.open();
    }
    await turn.settled;
    expect(textsOf(watcher.events)).toEqual({ 'answer-1': pieces.join('') });
  });

  it('S3-35 S1-42 ends with exactly one last chunk, behind the text and before the response', async () => {
    const { turn, watcher } = startWith(bench.model([{ text: ['One', ', two'] }]));
    await turn.settled;
    expect(watcher.of('artifact-update').filter(({ lastChunk }) => lastChunk)).toHaveLength(1);
    expect(outlineOf(watcher.events).slice(6, 9)).toEqual([
      'answer-1 appends: ", two"',
      'answer-1 appends, last: ""',
      'llm-response 1 stop',
    ]);
  });

  it('S3-32 gives no artifact for reasoning and call fragments', async () => {
    const steps = [{ reasoning: 'Hm.', toolCalls: [{ name: 'count' }] }, { text: 'Two.' }];
    const { turn, watcher } = startWith(bench.model(steps));
    await turn.settled;
    expect(Object.keys(textsOf(watcher.events))).toEqual(['answer-2']);
  });

  it('S3-34 S0-52 shows the fragments of a call with index and name, before its tool-start; together they are its arguments', async () => {
    const steps = [
      {
        toolCalls: [
          { name: 'count', arguments: ['{"of":', '"apples"', '}'] },
          { name: 'count', arguments: ['{"of"', ':"pears"}'] },
        ],
      },
      { text: 'Two.' },
    ];
    const { turn, watcher } = startWith(bench.model(steps));
    await turn.settled;
    const deltas = watcher.of('internal:tool-call-delta');
    expect(deltas.map(({ index, toolName }) => [index, toolName])).toEqual([
      [0, 'count'],
      [0, undefined],
      [0, undefined],
      [1, 'count'],
      [1, undefined],
    ]);
    const starts = watcher.of('internal:tool-start');
    for (const [index, start] of starts.entries()) {
      const fragments = deltas.filter((delta) => delta.index === index);
      expect(JSON.parse(fragments.map((delta) => delta.arguments).join(''))).toEqual(start.arguments);
      expect(new Set(fragments.map((delta) => delta.callId))).toEqual(new Set([start.callId]));
    }
    const lastDelta = watcher.events.findLastIndex(({ kind }) => kind === 'internal:tool-call-delta');
    expect(watcher.events.findIndex(({ kind }) => kind === 'internal:tool-start')).toBeGreaterThan(lastDelta);
  });

  it('S3-36 delivers the text and the call of one response: the tool runs, the assistant message keeps both', async () => {
    const model = bench.model([{ text: 'Let me count.', toolCalls: [{ name: 'count' }] }, { text: 'Two.' }]);
    const { turn, watcher } = startWith(model);
    await turn.settled;
    expect(textsOf(watcher.events)['answer-1']).toBe('Let me count.');
    expect(watcher.of('internal:tool-complete')).toMatchObject([{ content: '2' }]);
    expect(model.calls[1]?.messages[1]).toMatchObject({
      role: 'assistant',
      content: 'Let me count.',
      toolCalls: [{ function: { name: 'count' } }],
    });
  });

  it('S3-37 starts no tool before the stream is complete', async () => {
    const end = gate();
    const runs: string[] = [];
    const provider: LLMProvider = {
      call: () => Promise.reject(new Error('not used')),
      stream: () =>
        new Observable<LLMChunk>((subscriber) => {
          subscriber.next({ type: 'tool-call', index: 0, id: 'x', name: 'count', arguments: '{}' });
          void end.pass().then(() => {
            subscriber.next({ type: 'done', response: { message: assistant, toolCalls: [call] } });
            subscriber.complete();
          });
        }),
    };
    const toolProviders = [plainTools({ count: () => runs.push('count') })];
    const turn = new AgentLoop(bench.config(provider, { toolProviders, maxIterations: 1, onLimit: 'stop' })).startTurn(
      question,
    );
    const watcher = watch(turn);
    await watcher.until('internal:tool-call-delta');
    await new Promise((resolve) => setImmediate(resolve));
    expect(runs).toEqual([]);
    end.open();
    await turn.settled;
    expect(runs).toEqual(['count']);
  });
});

const call = { id: 'x', type: 'function' as const, function: { name: 'count', arguments: '{}' } };
const assistant = { role: 'assistant' as const, content: null };

describe('call and stream', () => {
  const usage = { promptTokens: 9, completionTokens: 3, totalTokens: 12 };
  const steps = [
    {
      reasoning: 'Hm.',
      text: ['Let me ', 'count.'],
      toolCalls: [{ name: 'count', arguments: { of: 'apples' } }],
      usage,
    },
    { text: ['There ', 'are two.'], usage },
  ];

  it('S1-41 S0-64 S4-21 give the same messages, usage and events of records for the same answer', async () => {
    const runs = [];
    for (const streaming of [true, false]) {
      const { turn, watcher } = startWith(bench.model(steps, { streaming }));
      const result = await turn.result();
      await watcher.ended;
      runs.push({ result, texts: textsOf(watcher.events), events: ofRecords(watcher.events) });
      bench.store.delete('t');
    }
    const [streamed, called] = runs.map(({ result, texts }) => ({ result, texts }));
    expect(called).toEqual(streamed);
    expect(outlineOf(runs[1]?.events ?? [])).toEqual(outlineOf(runs[0]?.events ?? []));
    expect(streamed?.result).toMatchObject({ text: 'There are two.', usage: { totalTokens: 24 } });
  });

  it('S1-41 are chosen by the provider: call where it has no stream, or says that it cannot', async () => {
    for (const options of [{ streaming: false }, { capabilities: { streaming: false } }]) {
      const model = scriptedLLM([{ text: 'Two.' }], options);
      const used: string[] = [];
      const provider: LLMProvider = {
        ...options,
        call: (params) => {
          used.push('call');
          return model.call(params);
        },
        ...(model.stream && { stream: () => new Observable<LLMChunk>(() => void used.push('stream')) }),
      };
      expect(await new AgentLoop(bench.config(provider)).startTurn(question).result()).toMatchObject({ text: 'Two.' });
      expect(used).toEqual(['call']);
    }
  });

  it('S1-40 hand messages, tools, signal and trace context to a provider that has only call', async () => {
    const model = bench.model([{ text: 'Two.' }], { streaming: false });
    const { turn } = startWith(model);
    expect(await turn.result()).toMatchObject({ message: { role: 'assistant', content: 'Two.' } });
    expect(model.calls[0]).toMatchObject({
      messages: question,
      tools: [{ type: 'function', function: { name: 'count' } }],
      traceContext: expect.anything(),
    });
    expect(model.calls[0]?.signal).toBeInstanceOf(AbortSignal);
  });

  it('S1-40 are both left on cancel: the call’s signal is aborted', async () => {
    const model = bench.model([{ never: true }], { streaming: false });
    const { turn, watcher } = startWith(model);
    await watcher.until('internal:llm-call');
    await turn.cancel();
    expect([model.unsubscribed, model.calls[0]?.signal?.aborted]).toEqual([1, true]);
  });
});

describe('a provider that wraps an SDK’s AsyncIterable', () => {
  it('S4-16 passes chunks as they are produced; unsubscribing while it blocks closes the iterator', async () => {
    let closed = false;
    const blocks = new Promise<IteratorResult<LLMChunk>>(() => {});
    const produced: LLMChunk[] = [{ type: 'text', text: 'One' }];
    const iterable: AsyncIterable<LLMChunk> = {
      [Symbol.asyncIterator]: () => ({
        next: () => {
          const value = produced.shift();
          return value ? Promise.resolve({ done: false, value }) : blocks;
        },
        return: () => {
          closed = true;
          return Promise.resolve({ done: true, value: undefined });
        },
      }),
    };
    const provider: LLMProvider = {
      call: () => Promise.reject(new Error('not used')),
      stream: () => fromAsyncIterable(() => iterable),
    };
    const { turn, watcher } = startWith(provider);
    await watcher.until('artifact-update');
    watcher.leave();
    await turn.settled;
    expect(closed).toBe(true);
  });
});

import { describe, expect, it } from '@jest/globals';
import { type Extension, textOf } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { LiteLLMProvider } from 'millrace/litellm';
import { gate, type ScriptedLLMStep, startModelServer } from 'millrace/testing';
import type { IterationStep, StepChange } from 'millrace/types';
import { answerOf, deadTurn, firstCall, intentOf, question, resultOf } from '../dead-turn.ts';
import { type PlainTool, plainTools } from '../plain-tools.ts';
import { type BenchOptions, turnBench } from '../turn-bench.ts';
import { ofKind, watch } from '../watch-events.ts';

const bench = turnBench();
const counting: ScriptedLLMStep = { toolCalls: [{ name: 'count' }] };
const done: ScriptedLLMStep = { text: 'Done.' };
const tools = { count: () => 2 };
const note = { role: 'user', content: 'Mind the time.' } as const;

type OnStep = (step: IterationStep) => StepChange | undefined | Promise<StepChange | undefined>;

function onStep(afterIteration: OnStep): Extension {
  return { name: 'stepper', afterIteration };
}

/** A change at the end of the first iteration. */
function atFirst(change: StepChange): Extension {
  return onStep(({ iteration }) => (iteration === 1 ? change : undefined));
}

interface TryOptions extends BenchOptions {
  readonly tools?: Readonly<Record<string, PlainTool>>;
}

function turnOf(steps: readonly ScriptedLLMStep[], options: TryOptions) {
  const { tools: given = tools, ...rest } = options;
  const model = bench.model(steps);
  const config = bench.config(model, { toolProviders: [plainTools(given)], ...rest });
  return { model, config, turn: new AgentLoop(config).startTurn(question, { taskId: 'live' }) };
}

/** Goes on with a turn whose process died with the last result of its first iteration, before it was stepped. */
function resumeBeforeStep(steps: readonly ScriptedLLMStep[], options: BenchOptions) {
  deadTurn(bench, [firstCall, answerOf(['count']), intentOf(0), resultOf(0, '2')]);
  const model = bench.model(steps);
  return {
    model,
    turn: AgentLoop.resume('t', bench.config(model, { toolProviders: [plainTools(tools)], ...options })),
  };
}

/** Goes on with a turn whose process died behind a change that was recorded. */
function resumeBehindStep(steps: readonly ScriptedLLMStep[], effects: object, options: BenchOptions) {
  const change = { type: 'x.stepper' as const, effects, hook: 'afterIteration' as const };
  deadTurn(bench, [firstCall, answerOf(['count']), intentOf(0), resultOf(0, '2'), change]);
  const model = bench.model(steps);
  return {
    model,
    turn: AgentLoop.resume('t', bench.config(model, { toolProviders: [plainTools(tools)], ...options })),
  };
}

const textsOf = (messages: readonly { readonly content: Parameters<typeof textOf>[0] }[] = []) =>
  messages.map(({ content }) => textOf(content));

describe('the step in afterIteration', () => {
  it('S3-15 is numbered from 1, as its events and records are', async () => {
    const seen: number[] = [];
    const { turn } = turnOf([counting, counting, done], {
      extensions: [onStep(({ iteration }) => void seen.push(iteration))],
    });
    const watcher = watch(turn);
    await watcher.ended;
    expect(seen).toEqual([1, 2, 3]);
    expect(watcher.of('internal:iteration-start').map(({ iteration }) => iteration)).toEqual(seen);
    const starts = bench.store.read('live').filter((record) => record.type === 'llm.start');
    expect(starts.map(({ iteration }) => iteration)).toEqual(seen);
  });

  it('S3-16 has the model, temperature, limit and tools of the request', async () => {
    const steps: Pick<IterationStep, 'settings' | 'offered'>[] = [];
    const { model, turn } = turnOf([counting, counting, done], {
      model: 'small',
      temperature: 0.2,
      tools: { count: () => 2, extra: () => 3 },
      extensions: [
        {
          name: 'view',
          prepareIteration: (_, { iteration }) =>
            iteration === 1 ? { view: { settings: { temperature: 0.9 }, tools: ['count'] } } : undefined,
          beforeLLMCall: (_, { iteration }) => (iteration === 3 ? { params: { model: 'large' } } : undefined),
        },
        onStep((step) => {
          steps.push({ settings: step.settings, offered: step.offered });
          return step.iteration === 1 ? { settings: { maxTokens: 50 } } : undefined;
        }),
      ],
    });
    await turn.result();
    for (const [index, { settings, offered }] of steps.entries()) {
      const { model: name, temperature, maxTokens, tools: asked } = model.calls[index] ?? {};
      expect([settings.model, settings.temperature, settings.maxTokens]).toEqual([name, temperature, maxTokens]);
      expect(offered).toEqual(asked?.map((tool) => tool.function));
    }
    expect(steps.map(({ settings }) => settings)).toEqual([
      { model: 'small', temperature: 0.2 },
      { model: 'small', temperature: 0.9, maxTokens: 50 },
      { model: 'large', temperature: 0.2, maxTokens: 50 },
    ]);
  });

  it('S3-17 has the response, its calls, and the results in call order, as the records say them', async () => {
    const first = gate();
    const steps: IterationStep[] = [];
    const { turn } = turnOf([{ text: 'Two at once.', toolCalls: [{ name: 'slow' }, { name: 'quick' }] }, done], {
      tools: {
        slow: async () => {
          await first.pass();
          return 'slow';
        },
        quick: () => {
          first.open();
          return 'quick';
        },
      },
      extensions: [onStep((step) => void steps.push(step))],
    });
    await turn.result();
    const records = bench.store.read('live');
    const [step] = steps;
    expect(step?.text).toBe('Two at once.');
    expect(step?.response).toEqual(records.find(({ type }) => type === 'llm.done'));
    expect(step?.calls.map(({ callId }) => callId)).toEqual(['1:0', '1:1']);
    expect(step?.results.map(({ content }) => content)).toEqual(['slow', 'quick']);
    const results = records.filter((record) => record.type === 'tool.result');
    expect(results.map(({ content }) => content)).toEqual(['quick', 'slow']);
    expect(step?.calls).toEqual([
      { ...step?.response?.calls[0], toolName: 'slow' },
      { ...step?.response?.calls[1], toolName: 'quick' },
    ]);
    expect(step?.results).toEqual([
      { ...results[1], toolName: 'slow', arguments: {} },
      { ...results[0], toolName: 'quick', arguments: {} },
    ]);
  });

  it('S3-18 comes once behind both results, and the next model call waits for it', async () => {
    const answer = gate();
    const asked = gate();
    const steps: IterationStep[] = [];
    const { model, turn } = turnOf([{ toolCalls: [{ name: 'count' }, { name: 'count' }] }, done], {
      extensions: [
        onStep(async (step) => {
          steps.push(step);
          if (step.iteration > 1) return undefined;
          asked.open();
          await answer.pass();
          return undefined;
        }),
      ],
    });
    const result = turn.result();
    await asked.pass();
    expect(steps.map(({ results }) => results.length)).toEqual([2]);
    expect(model.calls).toHaveLength(1);
    answer.open();
    await result;
    expect(model.calls).toHaveLength(2);
    expect(steps).toHaveLength(2);
  });

  it('S3-28 may be answered with nothing, or with what changes it', async () => {
    const { model, turn } = turnOf([counting, counting, done], {
      extensions: [onStep(async ({ iteration }) => (iteration === 2 ? { messages: [note] } : undefined))],
    });
    await turn.result();
    expect(model.calls.map(({ messages }) => textsOf(messages).includes(note.content))).toEqual([false, false, true]);
  });

  it('S3-29 is asked about the last iteration too, which is finished', async () => {
    const seen: unknown[] = [];
    const { turn } = turnOf([counting, done], {
      extensions: [onStep(({ finished, finish }) => void seen.push([finished, finish?.text]))],
    });
    await turn.result();
    expect(seen).toEqual([
      [false, undefined],
      [true, 'Done.'],
    ]);
  });

  it('S3-30 has the results in its history, and they can still be changed', async () => {
    const { model, turn } = turnOf([counting, done], {
      extensions: [
        onStep(({ state, results, calls }) => {
          if (results.length === 0) return undefined;
          expect(state.messages.at(-1)).toMatchObject({ role: 'tool', content: '2' });
          return { results: { [calls[0]?.callId ?? '']: 'two' } };
        }),
      ],
    });
    await turn.result();
    expect(model.calls[1]?.messages.at(-1)).toMatchObject({ role: 'tool', content: 'two' });
  });
});

describe('afterIteration', () => {
  it('S3-19 changes the model of the requests behind it', async () => {
    const { model, turn } = turnOf([counting, done], {
      model: 'small',
      extensions: [atFirst({ settings: { model: 'large' } })],
    });
    await turn.result();
    expect(model.calls.map((params) => params.model)).toEqual(['small', 'large']);
  });

  it('S3-20 changes the temperature of the requests behind it, also where another process goes on', async () => {
    const change = { settings: { temperature: 0.7 } };
    const temperatures = (calls: readonly { readonly temperature?: number | undefined }[]) =>
      calls.map(({ temperature }) => temperature);
    const live = turnOf([counting, counting, done], { extensions: [atFirst(change)] });
    await live.turn.result();
    expect(temperatures(live.model.calls)).toEqual([undefined, 0.7, 0.7]);
    const never = onStep(({ iteration }) => {
      if (iteration === 1) throw new Error('asked twice');
      return undefined;
    });
    const resumed = resumeBehindStep([done], change, { extensions: [never] });
    await resumed.turn.result();
    expect(temperatures(resumed.model.calls)).toEqual([0.7]);
  });

  it('is asked by the process that goes on, where it had not answered', async () => {
    const { model, turn } = resumeBeforeStep([done], { extensions: [atFirst({ messages: [note] })] });
    await turn.result();
    expect(textsOf(model.calls[0]?.messages)).toContain(note.content);
  });

  it('S3-21 adds a tool for the rest of the turn, and it runs', async () => {
    const ran: string[] = [];
    const extra = plainTools({ extra: ({ callId }) => ran.push(callId) });
    const { model, turn } = turnOf([counting, { toolCalls: [{ name: 'extra' }] }, done], {
      extensions: [atFirst({ tools: { add: [extra] } })],
    });
    await turn.result();
    const offered = model.calls.map((params) => params.tools?.map((tool) => tool.function.name));
    expect(offered).toEqual([['count'], ['count', 'extra'], ['count', 'extra']]);
    expect(ran).toEqual(['2:0']);
  });

  it('S3-22 removes a tool for the rest of the turn; a call of it is one of an unknown tool', async () => {
    const ran: string[] = [];
    const { model, turn } = turnOf([counting, counting, done], {
      tools: { count: ({ callId }) => ran.push(callId), other: () => 1 },
      extensions: [atFirst({ tools: { remove: ['count'] } })],
    });
    await turn.result();
    expect(model.calls[1]?.tools?.map((tool) => tool.function.name)).toEqual(['other']);
    expect(ran).toEqual(['1:0']);
    expect(model.calls[2]?.messages.at(-1)).toMatchObject({
      content: 'Tool error: tool "count" is not known; known tools: other',
    });
  });

  it('S3-22 offers a tool again that was removed, where a later step adds it', async () => {
    const changes = [{ remove: ['count'] }, { add: ['count'] }];
    const { model, turn } = turnOf([counting, { toolCalls: [{ name: 'other' }] }, done], {
      tools: { count: () => 2, other: () => 1 },
      extensions: [onStep(({ iteration }) => ({ tools: changes[iteration - 1] ?? {} }))],
    });
    await turn.result();
    const offered = model.calls.map((params) => params.tools?.map((tool) => tool.function.name).sort());
    expect(offered).toEqual([['count', 'other'], ['other'], ['count', 'other']]);
  });

  it('S3-23 appends messages; prepareIteration edits the system text and trims, and the log stays as it is', async () => {
    const { model, turn } = turnOf([counting, done], {
      systemPrompt: 'Be brief.',
      extensions: [
        atFirst({ messages: [note] }),
        {
          name: 'trimmer',
          prepareIteration: ({ messages, systemPrompt }, { iteration }) =>
            iteration === 1 ? { view: { systemPrompt: `${systemPrompt} Be kind.`, messages: messages.slice(-1) } } : {},
        },
      ],
    });
    const result = await turn.result();
    expect(textsOf(model.calls[1]?.messages)).toEqual(['Be brief. Be kind.', note.content]);
    expect(result.messages.map(({ role }) => role)).toEqual(['assistant', 'tool', 'user', 'assistant']);
  });

  it('S3-24 S0-36 changes results before the model sees them, as afterToolCall does', async () => {
    const changes: readonly Extension[] = [
      onStep(({ calls }) => (calls.length > 0 ? { results: { '1:0': 'secret removed' } } : undefined)),
      { name: 'mask', afterToolCall: () => ({ result: { content: 'secret removed' } }) },
    ];
    for (const extension of changes) {
      const { model, config } = turnOf([counting, done], {
        tools: { count: () => 'the secret 42' },
        extensions: [extension],
      });
      await new AgentLoop(config).startTurn(question).result();
      expect(model.calls[1]?.messages.at(-1)).toMatchObject({ content: 'secret removed' });
      expect(JSON.stringify(model.calls.map(({ messages }) => messages))).not.toContain('42');
    }
  });

  it('S3-26 finishes the turn with a value; one that is no JSON never becomes the result', async () => {
    const { model, turn } = turnOf([counting], {
      extensions: [atFirst({ finish: { value: { n: 2 }, text: 'Two.' } })],
    });
    expect(await turn.result()).toMatchObject({ status: 'completed', value: { n: 2 }, text: 'Two.' });
    expect(model.calls).toHaveLength(1);
    const wrong = turnOf([counting], { extensions: [atFirst({ finish: { value: () => 2 } })] });
    await expect(new AgentLoop(wrong.config).startTurn(question).result()).rejects.toMatchObject({
      code: 'EXTENSION_FAILED',
      message: expect.stringContaining('finish.value is not JSON'),
      result: { value: undefined },
    });
  });

  it('S3-27 fails the turn with the error that it throws, shown before, and calls the model no more', async () => {
    const { model, turn } = turnOf([counting], {
      extensions: [
        onStep(() => {
          throw new RangeError('enough');
        }),
      ],
    });
    const watcher = watch(turn);
    await watcher.ended;
    const [error] = ofKind(watcher.events, 'internal:extension-error');
    expect(error).toMatchObject({ extension: 'stepper', hook: 'afterIteration', fatal: true });
    expect(watcher.events.at(-1)).toMatchObject({ kind: 'status-update', status: { state: 'failed' }, final: true });
    await expect(turn.result()).rejects.toMatchObject({ cause: expect.any(RangeError) });
    expect(model.calls).toHaveLength(1);
  });
});

describe('the model of a step over the wire', () => {
  it('S3-40 is given as a name, or with options that the request carries', async () => {
    const server = await startModelServer({
      script: [{ toolCalls: [{ name: 'count' }] }, { toolCalls: [{ name: 'count' }] }, { text: 'Done.' }],
    });
    try {
      const provider = new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'default' });
      const byName = atFirst({ settings: { model: 'large' } });
      const withOptions = onStep(({ iteration }) =>
        iteration === 2 ? { settings: { model: 'large', providerOptions: { reasoning_effort: 'low' } } } : undefined,
      );
      const config = bench.config(provider, {
        toolProviders: [plainTools(tools)],
        extensions: [byName, { ...withOptions, name: 'options' }],
      });
      await new AgentLoop(config).startTurn(question).result();
      const asked = server.requests.map(({ model, reasoning_effort }) => [model, reasoning_effort]);
      expect(asked).toEqual([
        ['default', undefined],
        ['large', undefined],
        ['large', 'low'],
      ]);
    } finally {
      await server.close();
    }
  });
});

import { describe, expect, it } from '@jest/globals';
import type { AgentEvent, LLMChunk, LLMProvider } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { asyncStore, gate, type ScriptedLLMStep } from 'millrace/testing';
import { of } from 'rxjs';
import { question } from './dead-turn.ts';
import { obedient, type PlainTool, plainTools } from './plain-tools.ts';
import { type BenchOptions, turnBench } from './turn-bench.ts';
import { outlineOf, watch } from './watch-events.ts';

const bench = turnBench();

interface Script extends BenchOptions {
  readonly steps: readonly ScriptedLLMStep[];
  readonly tools?: Readonly<Record<string, PlainTool>>;
  /** The model answers within `subscribe`. Default false. */
  readonly synchronous?: boolean;
}

/** The events of a turn from its start to its end, in short. */
async function eventsOfTurn({
  steps,
  tools = {},
  synchronous = false,
  ...options
}: Script): Promise<readonly AgentEvent[]> {
  const model = bench.model(steps, { synchronous });
  const config = bench.config(model, { toolProviders: [plainTools(tools)], ...options });
  const turn = new AgentLoop(config).startTurn(question);
  const watcher = watch(turn);
  await watcher.ended;
  return watcher.events;
}

async function linesOf(script: Script): Promise<readonly string[]> {
  return outlineOf(await eventsOfTurn(script));
}

/** A provider that streams a text, gives it up, and streams another. */
const retrying: LLMProvider = {
  call: () => Promise.reject(new Error('not used')),
  stream: () =>
    of<LLMChunk[]>(
      { type: 'text', text: 'Wro' },
      { type: 'attempt', state: 'void', reason: 'the connection closed' },
      { type: 'attempt', state: 'begin' },
      { type: 'text', text: 'Right' },
      { type: 'done', response: { message: { role: 'assistant', content: 'Right' } } },
    ),
};

const withoutCheckpoints = (lines: readonly string[]) => lines.filter((line) => !line.startsWith('checkpoint'));

const textOnly: Script = { steps: [{ text: ['There ', 'are two.'] }] };
const textOnlyLines = [
  'task submitted',
  'status working',
  'checkpoint before-iteration 0',
  'iteration-start 1',
  'llm-call 1.1',
  'answer-1 is: "There "',
  'answer-1 appends: "are two."',
  'answer-1 appends, last: ""',
  'llm-response 1 stop',
  'checkpoint after-llm 1',
  'checkpoint end 1',
  'iteration-complete 1',
  'status completed final (stop)',
];

const textAndTools: Script = {
  steps: [
    {
      reasoning: 'I have to count.',
      text: 'Let me count.',
      toolCalls: [{ name: 'count', arguments: ['{"of":', '"apples"}'] }],
    },
    { text: 'Two.' },
  ],
  tools: { count: () => 2 },
};
const textAndToolsLines = [
  'task submitted',
  'status working',
  'checkpoint before-iteration 0',
  'iteration-start 1',
  'llm-call 1.1',
  'reasoning-delta "I have to count."',
  'answer-1 is: "Let me count."',
  'tool-call-delta 0 count{"of":',
  'tool-call-delta 0 "apples"}',
  'answer-1 appends, last: ""',
  'llm-response 1 tool_calls',
  'checkpoint after-llm 1',
  'tool-start 1:0 count',
  'tool-complete 1:0 ok',
  'checkpoint before-iteration 1',
  'iteration-complete 1',
  'iteration-start 2',
  'llm-call 2.1',
  'answer-2 is: "Two."',
  'answer-2 appends, last: ""',
  'llm-response 2 stop',
  'checkpoint after-llm 2',
  'checkpoint end 2',
  'iteration-complete 2',
  'status completed final (stop)',
];

describe('the events of a turn, in order', () => {
  it('S1-58 S1-59 S1-60 S1-63 for a text', async () => {
    expect(await linesOf(textOnly)).toEqual(textOnlyLines);
  });

  it('S2-26 S2-18 S2-19 S4-17 for reasoning, a text, a tool and the answer', async () => {
    expect(await linesOf(textAndTools)).toEqual(textAndToolsLines);
  });

  it.each([
    ['a text', textOnly, textOnlyLines],
    ['a text and tools', textAndTools, textAndToolsLines],
  ])(
    'are the same without a store for %s, but for the checkpoints, of which there are none',
    async (_, script, lines) => {
      expect(await linesOf({ ...script, store: false })).toEqual(withoutCheckpoints(lines));
    },
  );

  it.each([
    ['a text', textOnly, textOnlyLines],
    ['a text and tools', textAndTools, textAndToolsLines],
  ])(
    'S1-64 are the same for %s where model and tools answer at once, and where they take their time',
    async (_, script, lines) => {
      expect(await linesOf({ ...script, synchronous: true })).toEqual(lines);
      const later = async () => {
        await new Promise((resolve) => setImmediate(resolve));
        return 2;
      };
      expect(await linesOf({ ...script, tools: { count: later } })).toEqual(lines);
    },
  );

  it('S1-64 are the same on a store that takes its time, but for the pieces of a text, which wait as one', async () => {
    const events = await eventsOfTurn({ ...textAndTools, taskStateStore: asyncStore(bench.store) });
    const waiting = ['reasoning-delta', 'tool-call-delta'];
    const inOneGo = (line: string) => !waiting.some((kind) => line.startsWith(kind));
    expect(outlineOf(events).filter(inOneGo)).toEqual(textAndToolsLines.filter(inOneGo));
    expect(outlineOf(await eventsOfTurn({ ...textOnly, taskStateStore: asyncStore(bench.store) })).slice(4, 8)).toEqual(
      ['llm-call 1.1', 'answer-1 is: "There are two."', 'answer-1 appends, last: ""', 'llm-response 1 stop'],
    );
  });

  it('S1-53 S4-27 for tools that run in parallel: starts in call order, completes as they finish, then one model call', async () => {
    const [slow, quick] = [gate(), gate()];
    const order = async (own: ReturnType<typeof gate>, next?: ReturnType<typeof gate>) => {
      await own.pass();
      next?.open();
      return 'ok';
    };
    const lines = linesOf({
      steps: [{ toolCalls: [{ name: 'slow' }, { name: 'quick' }, { name: 'instant' }] }, { text: 'Done.' }],
      tools: { slow: () => order(slow), quick: () => order(quick, slow), instant: () => quick.open() },
    });
    expect((await lines).slice(8, 19)).toEqual([
      'llm-response 1 tool_calls',
      'checkpoint after-llm 1',
      'tool-start 1:0 slow',
      'tool-start 1:1 quick',
      'tool-start 1:2 instant',
      'tool-complete 1:2 ok',
      'tool-complete 1:1 ok',
      'tool-complete 1:0 ok',
      'checkpoint before-iteration 1',
      'iteration-complete 1',
      'iteration-start 2',
    ]);
  });

  it('S1-61 S1-66 for a model that fails: each event once, one end', async () => {
    expect(await linesOf({ steps: [{ text: ['So far'], error: new Error('cable cut') }] })).toEqual([
      'task submitted',
      'status working',
      'checkpoint before-iteration 0',
      'iteration-start 1',
      'llm-call 1.1',
      'answer-1 is: "So far"',
      'checkpoint end 1',
      'status failed final (provider_failed)',
    ]);
  });

  it('for a model that fails within subscribe, the same', async () => {
    const steps = [{ text: ['So far'], error: new Error('cable cut') }];
    expect(await linesOf({ steps, synchronous: true })).toEqual(await linesOf({ steps }));
  });

  it('for a tool that fails: the turn goes on', async () => {
    const fail = () => {
      throw new RangeError('x must be positive');
    };
    const lines = await linesOf({
      steps: [{ toolCalls: [{ name: 'fail' }] }, { text: 'It failed.' }],
      tools: { fail },
    });
    expect(lines.slice(7, 13)).toEqual([
      'checkpoint after-llm 1',
      'tool-start 1:0 fail',
      'tool-complete 1:0 TOOL_FAILED',
      'checkpoint before-iteration 1',
      'iteration-complete 1',
      'iteration-start 2',
    ]);
  });

  it('for a call that is refused: it completes without a start, because nothing ran', async () => {
    const lines = await linesOf({
      steps: [{ toolCalls: [{ name: 'nonsense' }, { name: 'count' }] }, { text: 'Two.' }],
      tools: { count: () => 2 },
    });
    expect(lines.filter((line) => line.startsWith('tool-') && !line.includes('delta'))).toEqual([
      'tool-complete 1:0 TOOL_NOT_FOUND',
      'tool-start 1:1 count',
      'tool-complete 1:1 ok',
    ]);
  });

  it('for a turn that is cancelled while its tools run', async () => {
    const turn = bench
      .loop([{ toolCalls: [{ name: 'obedient' }] }], { toolProviders: [plainTools({ obedient })] })
      .startTurn(question);
    const watcher = watch(turn);
    await watcher.until('internal:tool-start');
    await turn.cancel('enough');
    expect(outlineOf(watcher.events).slice(6)).toEqual([
      'llm-response 1 tool_calls',
      'checkpoint after-llm 1',
      'tool-start 1:0 obedient',
      'tool-complete 1:0 CANCELED',
      'checkpoint before-iteration 1',
      'iteration-complete 1',
      'checkpoint end 1',
      'status canceled final (enough)',
    ]);
  });

  it('for a turn that suspends', async () => {
    const turn = bench.loop([]).startTurn(question);
    turn.pause('lunch');
    const watcher = watch(turn);
    await watcher.ended;
    expect(outlineOf(watcher.events)).toEqual([
      'task submitted',
      'status working',
      'checkpoint before-iteration 0',
      'paused (lunch)',
      'status input-required final (lunch)',
    ]);
  });

  it('S4-15 for a provider that has only call: all of the text in one event, then the response', async () => {
    const model = bench.model([{ text: ['There ', 'are two.'] }], { streaming: false });
    const watcher = watch(new AgentLoop(bench.config(model)).startTurn(question));
    await watcher.ended;
    expect(outlineOf(watcher.events).slice(4, 8)).toEqual([
      'llm-call 1.1',
      'answer-1 is, last: "There are two."',
      'llm-response 1 stop',
      'checkpoint after-llm 1',
    ]);
  });

  it('S0-44 for a policy that tries again after text was streamed: the text of the first attempt is void', async () => {
    const lines = await linesOf({ steps: [], llmProvider: retrying });
    expect(lines.slice(4, 10)).toEqual([
      'llm-call 1.1',
      'answer-1 is: "Wro"',
      'llm-attempt-discarded 1.1',
      'answer-1 is: "Right"',
      'answer-1 appends, last: ""',
      'llm-response 1 stop',
    ]);
  });
});

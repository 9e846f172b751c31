import { describe, expect, it } from '@jest/globals';
import type { Extension } from 'millrace';
import { gate } from 'millrace/testing';
import { question } from '../dead-turn.ts';
import { plainTools } from '../plain-tools.ts';
import { turnBench } from '../turn-bench.ts';
import { ofKind, outlineOf, watch } from '../watch-events.ts';
import { recordingExtension } from './recording-extension.ts';

const bench = turnBench();
const counting = () => plainTools({ count: () => 2 });
const twoSteps = [{ toolCalls: [{ name: 'count' }] }, { text: 'Two.' }] as const;

/** Hooks that answer at once. */
const prompt: readonly string[] = ['beforeMessage', 'approveToolCall'];

/** The same hooks, answering later where they may. */
function later(extension: Extension): Extension {
  const slow = Object.entries(extension).map(([name, hook]) => [
    name,
    typeof hook === 'function' && !prompt.includes(name) ? async (...given: unknown[]) => hook(...given) : hook,
  ]);
  return Object.fromEntries(slow);
}

const order = [
  'beforeMessage 0 user',
  'beforeTurn 0',
  'shouldPause 0',
  'prepareIteration 0',
  'beforeLLMCall 1',
  'afterLLMCall 1',
  'beforeToolCall 1 1:0',
  'approveToolCall 1 1:0',
  'afterToolCall 1 1:0',
  'afterIteration 1',
  'shouldPause 1',
  'prepareIteration 1',
  'beforeLLMCall 2',
  'afterLLMCall 2',
  'beforeFinish 2',
  'afterIteration 2 finished',
  'afterTurn 2 completed',
  'afterEnd 2 completed',
];

const answeringAtOnceOrLater = [
  ['at once', (extension: Extension) => extension],
  ['later', later],
] as const;

describe('the hooks of an extension', () => {
  it.each(answeringAtOnceOrLater)('S1-96 S0-31 are asked in one order where they answer %s', async (_, answering) => {
    const recorder = recordingExtension();
    const loop = bench.loop(twoSteps, { toolProviders: [counting()], extensions: [answering(recorder)] });
    const result = await loop.startTurn(question).result();
    expect(result).toMatchObject({ status: 'completed', text: 'Two.', iterations: 2 });
    expect(recorder.asked).toEqual(order);
  });

  it('is not called where it is not due, unless an earlier extension has answered the same hook', async () => {
    const recorder = recordingExtension();
    const undue: Extension = { ...recorder, isDue: (_hook, { iteration }, call) => !call && iteration === 1 };
    const earlier: Extension = {
      name: 'earlier',
      prepareIteration: (_, { iteration }) => (iteration === 0 ? {} : undefined),
    };
    const loop = bench.loop(twoSteps, { toolProviders: [counting()], extensions: [earlier, undue] });
    await loop.startTurn(question).result();
    const wanted = order.filter((line) => / 1( |$)/.test(line) && !line.endsWith('1:0'));
    expect(recorder.asked).toEqual(['beforeMessage 0 user', 'prepareIteration 0', ...wanted]);
  });

  it.each([
    ['prepareIteration', 0],
    ['beforeLLMCall', 0],
    ['beforeToolCall', 1],
    ['afterIteration', 1],
    ['beforeFinish', 2],
  ] as const)('fails in %s where isDue throws, as onError has it', async (name, calls) => {
    const asked: string[] = [];
    const broken = (onError: 'fail' | 'continue'): Extension => ({
      name: 'broken',
      onError,
      isDue: (hook) => {
        if (hook === name) throw new Error('no state');
        return true;
      },
      [name]: () => void asked.push(name),
    });
    const tools = { toolProviders: [counting()] };
    const failed = bench.loop(twoSteps.slice(0, calls), { ...tools, extensions: [broken('fail')] }).startTurn(question);
    await expect(failed.result()).rejects.toMatchObject({
      code: 'EXTENSION_FAILED',
      message: expect.stringContaining(`failed in ${name}: no state`),
    });
    const turn = bench.loop(twoSteps, { ...tools, extensions: [broken('continue')] }).startTurn(question);
    const { events, ended } = watch(turn);
    await ended;
    const errors = events.filter(({ kind }) => kind === 'internal:extension-error');
    expect(errors[0]).toMatchObject({ extension: 'broken', hook: name, fatal: false });
    expect([turn.state?.outcome?.state, asked]).toEqual(['completed', []]);
  });

  it('leave the records of a turn as they are without them', async () => {
    const types = async (extensions: readonly Extension[]) => {
      const taskId = `t${extensions.length}`;
      await bench
        .loop(twoSteps, { toolProviders: [counting()], extensions })
        .startTurn(question, { taskId })
        .result();
      return bench.store.read(taskId).map(({ type }) => type);
    };
    expect(await types([recordingExtension(), later(recordingExtension('slow'))])).toEqual(await types([]));
  });

  it('S0-41 survive the turn: a second one is asked the same', async () => {
    const recorder = recordingExtension();
    const loop = bench.loop([...twoSteps, ...twoSteps], { toolProviders: [counting()], extensions: [recorder] });
    await loop.startTurn(question).result();
    await loop.startTurn(question).result();
    expect(recorder.asked).toEqual([...order, ...order]);
  });

  it('S0-39 around a call come in one order: every beforeToolCall, the approval of the final arguments, start, afterToolCall, complete', async () => {
    const order: string[] = [];
    const note = (what: string, args?: unknown) => void order.push(args ? `${what} ${JSON.stringify(args)}` : what);
    const changing: Extension = {
      name: 'changing',
      beforeToolCall({ arguments: args }) {
        note('before 1', args);
        return { arguments: { of: 'pears' } };
      },
      approveToolCall: ({ arguments: args }) => note('approve 1', args),
      afterToolCall: () => note('after 1'),
    };
    const looking: Extension = {
      name: 'looking',
      beforeToolCall: ({ arguments: args }) => note('before 2', args),
      approveToolCall: ({ arguments: args }) => note('approve 2', args),
      afterToolCall: () => note('after 2'),
    };
    const toolProviders = [plainTools({ count: ({ arguments: args }) => note('runs', args) })];
    const call = { toolCalls: [{ name: 'count', arguments: { of: 'apples' } }] };
    const turn = bench
      .loop([call, { text: 'Two.' }], { toolProviders, extensions: [changing, looking] })
      .startTurn(question);
    const watcher = watch(turn, ({ kind }) => {
      if (kind === 'internal:tool-start' || kind === 'internal:tool-complete') note(kind.replace('internal:', ''));
    });
    await watcher.ended;
    expect(order).toEqual([
      'before 1 {"of":"apples"}',
      'before 2 {"of":"pears"}',
      'approve 1 {"of":"pears"}',
      'approve 2 {"of":"pears"}',
      'tool-start',
      'runs {"of":"pears"}',
      'after 1',
      'after 2',
      'tool-complete',
    ]);
  });

  it('S0-32 end with afterTurn, once, where the turn completes, fails and is cancelled', async () => {
    const recorder = recordingExtension();
    await bench
      .loop([{ text: 'Two.' }], { extensions: [recorder] })
      .startTurn(question)
      .result();
    const failing = bench.loop([{ error: new Error('down') }], { extensions: [recorder] });
    await expect(failing.startTurn(question).result()).rejects.toMatchObject({ code: 'PROVIDER_FAILED' });
    expect(recorder.asked.filter((line) => line.startsWith('afterTurn'))).toEqual([
      'afterTurn 1 completed',
      'afterTurn 1 failed',
    ]);
    const turn = bench.loop([{ never: true }], { extensions: [recorder] }).startTurn(question);
    const watcher = watch(turn);
    await turn.cancel('enough');
    expect(recorder.asked.filter((line) => line.startsWith('afterTurn'))).toEqual([
      'afterTurn 1 completed',
      'afterTurn 1 failed',
      'afterTurn 1 canceled',
    ]);
    await watcher.ended;
  });
});

describe('the hooks behind an end', () => {
  it.each([
    ['completed', [{ text: 'Two.' }]],
    ['failed', [{ error: new Error('down') }]],
  ])('are asked of every extension once the turn has %s, whatever the others do', async (state, steps) => {
    const heard: string[] = [];
    const raise = () => {
      throw new Error('out of order');
    };
    const broken: Extension = { name: 'broken', ...(state === 'failed' && { afterTurn: raise }), afterEnd: raise };
    const failing: Extension = {
      name: 'failing',
      afterEnd: () => JSON.parse('{ "fail": { "code": "LIMIT", "message": "no" } }'),
    };
    const last: Extension = {
      name: 'last',
      afterTurn: () => void heard.push('asked'),
      async afterEnd({ taskId, outcome, text }) {
        await new Promise(setImmediate);
        const stored = bench.store.load(taskId)?.status;
        heard.push(`${stored} ${outcome.state} ${text}`);
      },
    };
    const turn = bench.loop(steps, { extensions: [broken, failing, last] }).startTurn(question);
    const watcher = watch(turn);
    await turn.result().catch(() => {});
    expect(heard).toEqual(['asked', `${state} ${state} ${state === 'completed' ? 'Two.' : ''}`]);
    expect(watcher.events.at(-1)).toMatchObject({ kind: 'status-update', status: { state } });
    expect(watcher.of('internal:extension-error')).toEqual([]);
  });

  it('are not reached by a cancel of the turn', async () => {
    const begun = gate();
    const saved = gate();
    const aborted: boolean[] = [];
    const keeping: Extension = {
      name: 'keeping',
      async afterEnd({ signal }) {
        begun.open();
        await saved.pass();
        aborted.push(signal.aborted);
      },
    };
    const turn = bench.loop([{ text: 'Two.' }], { extensions: [keeping] }).startTurn(question);
    const ended = turn.result();
    await begun.pass();
    const canceled = turn.cancel('too late');
    saved.open();
    await canceled;
    expect(aborted).toEqual([false]);
    await expect(ended).resolves.toMatchObject({ status: 'completed' });
  });
});

describe('a hook that throws', () => {
  const broken = (onError?: 'fail' | 'continue'): Extension => ({
    name: 'broken',
    ...(onError && { onError }),
    afterIteration() {
      throw new RangeError('out of range');
    },
  });

  it('S0-40 S3-27 fails the turn with its error as the cause, and is shown', async () => {
    const loop = bench.loop(twoSteps.slice(0, 1), { toolProviders: [counting()], extensions: [broken()] });
    const turn = loop.startTurn(question);
    const watcher = watch(turn);
    await watcher.ended;
    expect(ofKind(watcher.events, 'internal:extension-error')).toMatchObject([
      { extension: 'broken', hook: 'afterIteration', message: 'out of range', fatal: true, iteration: 1 },
    ]);
    await expect(turn.result()).rejects.toMatchObject({
      code: 'EXTENSION_FAILED',
      message: 'Extension "broken" failed in afterIteration: out of range',
      cause: { name: 'RangeError', message: 'out of range' },
    });
  });

  it('S0-40 with onError "continue" is shown, and the turn goes on', async () => {
    const loop = bench.loop(twoSteps, { toolProviders: [counting()], extensions: [broken('continue')] });
    const watcher = watch(loop.startTurn(question));
    await watcher.ended;
    expect(outlineOf(watcher.events).filter((line) => line.startsWith('extension-error'))).toHaveLength(2);
    expect(outlineOf(watcher.events).at(-1)).toBe('status completed final (stop)');
  });
});

import { describe, expect, it } from '@jest/globals';
import { AgentLoopError, type Extension, type HookAnswer, type HookContext, replay } from 'millrace';
import {
  AgentLoop,
  type AskedHookName,
  type HookTable,
  hookNames,
  hookTable,
  type RecordedHook,
  type Replayed,
  recordedAnswers,
  type UnnamedHooks,
} from 'millrace/internals';
import { gate } from 'millrace/testing';
import type { TurnChange } from 'millrace/types';
import { testLimitMs } from '../../eventually.ts';
import { question } from '../dead-turn.ts';
import { endingOf } from '../operators/recorded-spans.ts';
import { recordingLogger } from '../operators/recording-logger.ts';
import { plainTools } from '../plain-tools.ts';

import { turnBench } from '../turn-bench.ts';
import { watch } from '../watch-events.ts';

const bench = turnBench();
const askedHooks = hookNames.filter((hook): hook is AskedHookName => hook !== 'beforeMessage');
const steps = [{ toolCalls: [{ name: 'pay' }] }, { text: 'Done.' }] as const;

/** A model call that fails, and an extension that repeats it. */
const failing = { error: new AgentLoopError('PROVIDER_SERVER', 'The model is gone; ask again.') };
const repeating: Extension = { name: 'repeating', onLLMError: () => ({ repeat: true }) };

/** How many model calls of a turn were answered when each hook is asked first. */
const callsBefore: Readonly<Record<AskedHookName, 0 | 1 | 2>> = {
  beforeTurn: 0,
  shouldPause: 0,
  prepareIteration: 0,
  beforeLLMCall: 0,
  afterLLMCall: 1,
  onLLMError: 0,
  beforeToolCall: 1,
  approveToolCall: 1,
  afterToolCall: 1,
  beforeFinish: 2,
  afterIteration: 1,
  afterTurn: 2,
  afterEnd: 2,
};

/** An extension with one hook that answers its first question so, and later ones with nothing. Its context is its last argument. */
function once(
  hook: AskedHookName,
  answer: (context: HookContext | undefined) => unknown,
  more: Partial<Extension> = {},
): Extension {
  let asked = 0;
  const first = (...given: readonly HookContext[]) => (asked++ === 0 ? answer(given.at(-1)) : undefined);
  return { name: 'tester', ...more, [hook]: first };
}

/** A turn that runs a tool, by two model calls where nothing fails; for `onLLMError` the first call fails once. */
function start(extension: Extension, length: number) {
  const ran: string[] = [];
  const logger = recordingLogger();
  const toolProviders = [plainTools({ pay: () => ran.push('pay') })];
  const failsFirst = extension.onLLMError !== undefined;
  const answered = steps.slice(0, length);
  const loop = bench.loop(failsFirst ? [failing, ...answered] : answered, {
    toolProviders,
    extensions: failsFirst ? [extension, repeating] : [extension],
    logger,
  });
  const turn = loop.startTurn(question, { taskId: 't', contextId: 'c' });
  const watcher = watch(turn);
  const ended = turn.result().then(
    ({ status }) => ({ status, code: undefined }),
    ({ code }) => ({ status: 'failed', code }),
  );
  return { ran, logger, watcher, ended };
}

const failures: readonly (readonly [string, () => unknown, RegExp])[] = [
  [
    'throws',
    () => {
      throw new Error('no rules');
    },
    /no rules/,
  ],
  ['rejects', () => Promise.reject(new Error('no rules')), /no rules/],
  ['never answers', () => new Promise(() => {}), /it did not answer within 1000 ms \(timeoutMs\)/],
  ['answers a number', () => 7, /number/],
  ['answers a list, later', async () => [{ approved: true }], /a list/],
  ['answers with an unknown property', () => ({ nonsense: true }), /unknown property "nonsense"; allowed: /],
];
const policies = ['fail', 'continue'] as const;
const cases = askedHooks.flatMap((hook) =>
  failures.flatMap(([how, answer, message]) => policies.map((onError) => ({ hook, how, answer, message, onError }))),
);

describe('each hook that fails', () => {
  it.each(cases)('K-06 $hook that $how, with onError $onError', async ({ hook, how, answer, message, onError }) => {
    const reached = gate();
    const seen: HookContext[] = [];
    const reach = (context: HookContext | undefined) => {
      // What a hook does not read is not created: its signal, and the span of one that answers at once.
      if (context?.signal && context.traceContext) seen.push(context);
      reached.open();
      return answer();
    };
    const refuses = hookTable[hook].failure === 'refuses the call';
    const fatal = onError === 'fail' && !refuses && hook !== 'afterEnd';
    const extension = once(hook, reach, { onError, timeoutMs: 1_000 });
    const { ran, logger, watcher, ended } = start(extension, fatal ? callsBefore[hook] : 2);
    await reached.pass();
    const [context] = seen;
    if (how === 'never answers') {
      bench.clock.advance(999);
      expect(context?.signal.aborted).toBe(false);
      bench.clock.advance(1);
    }
    expect(await ended).toEqual(
      fatal ? { status: 'failed', code: 'EXTENSION_FAILED' } : { status: 'completed', code: undefined },
    );
    const shown = { extension: 'tester', hook, fatal, message: expect.stringMatching(message) };
    // After the last event nothing is emitted: a failure there is only logged.
    expect(watcher.of('internal:extension-error')).toMatchObject(hook === 'afterEnd' ? [] : [shown]);
    const error = expect.objectContaining({ message: expect.stringMatching(message) });
    expect(logger.lines).toContainEqual([
      'warn',
      'extension failed',
      { taskId: 't', extension: 'tester', hook, error },
    ]);
    expect(context?.signal.aborted).toBe(true);
    const spans = bench.spans.spans().filter(({ name }) => name === `hook[tester.${hook}]`);
    expect(spans.map(endingOf)).toMatchObject([{ status: 'ERROR', exceptions: [expect.stringMatching(message)] }]);
    expect(ran).toHaveLength(
      refuses || (fatal && callsBefore[hook] === 0) || (fatal && ['afterLLMCall', 'beforeToolCall'].includes(hook))
        ? 0
        : 1,
    );
  });
});

/** Answers with one valid part and one that is not; the types forbid it. */
const halfValid = {
  prepareIteration: { view: { systemPrompt: 'Changed.' }, data: () => 1 },
  beforeLLMCall: { params: { temperature: 0.5, messages: [{ role: 'tool', toolCallId: 'x', content: 'Changed.' }] } },
  afterLLMCall: { response: { message: { role: 'assistant', content: 'Changed.' } }, data: () => 1 },
  beforeToolCall: { deadline: 0, deny: 7 },
  afterToolCall: { result: { content: 'Changed.' }, data: () => 1 },
} as const;

describe('an answer that is invalid in part', () => {
  it.each(Object.entries(halfValid))('K-06 has no effect at all in %s, with onError continue', async (hook, answer) => {
    let asked = 0;
    const extension: Extension = {
      name: 'tester',
      onError: 'continue',
      [hook]: () => (asked++ === 0 ? answer : undefined),
    };
    const model = bench.model(steps);
    const toolProviders = [plainTools({ pay: async () => 'paid' })];
    const config = bench.config(model, { toolProviders, extensions: [extension] });
    const turn = new AgentLoop(config).startTurn(question, { taskId: 't' });
    const watcher = watch(turn);
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Done.' });
    expect(watcher.of('internal:extension-error')).toMatchObject([{ extension: 'tester', hook, fatal: false }]);
    expect(model.calls[0]).not.toHaveProperty('temperature');
    const seen = JSON.stringify([model.calls.map(({ messages }) => messages), bench.store.read('t')]);
    expect(seen).toContain('paid');
    expect(seen).not.toContain('Changed.');
  });
});

/** An answer that each hook records, where it records any. */
const recordedBy: Readonly<Record<RecordedHook, object>> = {
  beforeTurn: { data: 1 },
  prepareIteration: { data: 1 },
  afterLLMCall: { data: 1 },
  onLLMError: { data: 1 },
  afterToolCall: { data: 1 },
  beforeFinish: { data: 1 },
  afterIteration: { data: 1 },
  afterTurn: { text: 'Changed.' },
};
const isRecorded = (hook: AskedHookName): hook is RecordedHook => hook in recordedBy;

describe('each row of the hook table', () => {
  it.each(askedHooks)('%s is asked, answered, traced, recorded and replayed', async (hook) => {
    let asked = 0;
    const answer = async () => {
      asked++;
      return isRecorded(hook) ? recordedBy[hook] : undefined;
    };
    const { ended } = start(once(hook, answer), 2);
    expect(await ended).toMatchObject({ status: 'completed' });
    expect(asked).toBe(1);
    expect(bench.spans.spans().map(({ name }) => name)).toContain(`hook[tester.${hook}]`);
    const records = bench.store.read('t');
    const own = records.filter(({ type }) => type === 'x.tester');
    expect(own).toMatchObject(isRecorded(hook) ? [{ hook }] : []);
    const replayed = await replay(records, {}, { patienceMs: testLimitMs }).result();
    expect(replayed.deviations).toEqual([]);
    expect(Object.keys(recordedAnswers(() => undefined)).includes(hook)).toBe(isRecorded(hook));
  });

  it('decides once in an iteration, where its answer is a decision', () => {
    const decisions = askedHooks.filter((hook) => hookTable[hook].recorded === 'decision');
    expect(decisions).toEqual(['beforeTurn', 'beforeFinish', 'afterIteration']);
    expect(decisions.filter((hook) => hookTable[hook].asked !== 'once an iteration')).toEqual([]);
  });
});

describe('a new hook', () => {
  interface Extended extends Extension {
    readonly beforeNothing?: (context: HookContext) => HookAnswer<Pick<TurnChange, 'data' | 'fail'>>;
  }

  it('has no place that the compiler does not name', () => {
    const row = {
      asked: 'each time',
      call: (extension: Extended, context: HookContext) => extension.beforeNothing?.(context),
      isLast: () => false,
      answer: { data: true, fail: true },
      flag: false,
      misfit: 'not an object',
      recorded: 'nothing',
      failure: 'by onError',
      onDrain: 'at once',
      endsWait: false,
    } as const;
    // @ts-expect-error: the row is missing
    const withoutRow: HookTable<Extended> = { ...hookTable };
    // @ts-expect-error: a property of its answer is missing
    const withoutProperty: HookTable<Extended> = { ...hookTable, beforeNothing: { ...row, answer: { data: true } } };
    // @ts-expect-error: its answers are not recorded anywhere
    const withoutRecord: HookTable<Extended> = { ...hookTable, beforeNothing: { ...row, recorded: 'change' } };
    const { call, ...uncalled } = row;
    // @ts-expect-error: nothing says how it is called
    const withoutCall: HookTable<Extended> = { ...hookTable, beforeNothing: uncalled };
    // @ts-expect-error: nothing says how it is replayed
    const withoutReplay: Replayed<RecordedHook | 'beforeNothing', Extended> = recordedAnswers(() => undefined);
    // @ts-expect-error: nothing says that a replay needs it not
    const withoutSilence: keyof UnnamedHooks<Extended> extends keyof UnnamedHooks ? true : false = true;
    const complete: HookTable<Extended> = { ...hookTable, beforeNothing: row };
    expect(Object.keys(complete)).toHaveLength(hookNames.length);
    expect(complete.beforeNothing.call).toBe(call);
    const all = [withoutRow, withoutProperty, withoutRecord, withoutCall, withoutReplay, withoutSilence];
    expect(all).not.toContain(undefined);
  });
});

import { describe, expect, it } from '@jest/globals';
import { type Context, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import {
  type AgentLoopConfig,
  AgentLoopError,
  type Clock,
  type ToolContext,
  type ToolPolicy,
  type ToolProvider,
  type ToolResult,
} from 'millrace';
import {
  type CallBatch,
  Deadlines,
  RunningTool,
  type ToolCallRun,
  type ToolResultRecord,
  type ToolSignal,
} from 'millrace/internals';
import type { TurnDeps } from 'millrace/operators';
import { finalize, map, Observable, takeWhile, tap } from 'rxjs';

import { answerWhen, type MarbleHelpers, marbles } from './marbles.ts';
import { canceled, endingOf, recordedSpans, unset } from './recorded-spans.ts';
import { startedState, turnDeps } from './turn-deps.ts';

const recorder = recordedSpans();
const enough = new AgentLoopError('CANCELED', 'enough');
const ok: ToolResult = { toolCallId: 'call', content: '2', success: true };

interface Helpers extends MarbleHelpers {
  /** Cancels the turn. */
  readonly cancel: () => void;
}

type Execute = (context: ToolContext, helpers: Helpers) => ToolResult | Promise<ToolResult>;

/** One call of a batch, from its start to its result: stopped with the turn, and left where nobody waits for it. */
function runTool(deps: TurnDeps, traceContext: Context): (run: Run) => Observable<ToolSignal> {
  const run$ = ({ started, tool, deadlines }: Run) =>
    new Observable<ToolSignal>((out) => {
      const batch = { turn: { state: startedState() }, scope: deps.inbox.scope, deadlines, traceContext };
      const running = new RunningTool(deps, batch, { started, tool, out });
      out.add(deps.inbox.scope.onAbort(() => running.onAbort()));
      out.add(() => running.stop());
      running.start();
    });
  return (run) => run$(run).pipe(takeWhile(({ type }) => type === 'tool-progress', true));
}

type Run = Omit<ToolCallRun, 'out'> & Pick<CallBatch, 'deadlines'>;

/** A run of the tool `count`, which does what `execute` says. */
function runOf(
  deps: TurnDeps,
  execute: (context: ToolContext) => ToolResult | Promise<ToolResult>,
  policy: ToolPolicy,
) {
  const provider: ToolProvider = { getTools: () => [], executeTool: (_, context) => execute(context) };
  const definition = {
    type: 'function',
    function: { name: 'count', description: 'Counts.', parameters: { type: 'object' } },
    ...policy,
  } as const;
  const call = { id: 'call', type: 'function', function: { name: 'count', arguments: '{"of":"apples"}' } } as const;
  const run: Run = {
    started: {
      callId: '1:0',
      call,
      intent: { type: 'tool.intent', callId: '1:0', attempt: 1, arguments: { of: 'apples' } },
      answers: [],
      childUsage: [],
    },
    tool: { definition, provider },
    deadlines: new Deadlines(deps.segment.config.clock),
  };
  return run;
}

interface Diagram {
  readonly execute: Execute;
  readonly policy?: ToolPolicy;
  readonly config?: Partial<AgentLoopConfig>;
  readonly out: string;
  /** When the turn is cancelled, in ms. */
  readonly cancelAt?: number;
  readonly leave?: string;
}

/** Runs one call in virtual time: `p` is a sign of life, `r` the result. Gives what the tool was told and what came of it. */
function draw({ execute, policy = {}, config, out, cancelAt, leave }: Diagram) {
  const contexts: ToolContext[] = [];
  const results: ToolResultRecord[] = [];
  const updates: unknown[] = [];
  const spanEnded: boolean[] = [];
  const fired = marbles((helpers) => {
    const { clock, expectObservable } = helpers;
    const deps = turnDeps({ clock, toolTimeoutMs: 1_000, abortGraceMs: 20, ...config });
    const cancel = () => deps.inbox.scope.abort(enough);
    if (cancelAt !== undefined) clock.schedule(cancelAt, cancel);
    const run = runOf(
      deps,
      (context) => {
        contexts.push(context);
        return execute(context, { ...helpers, cancel });
      },
      policy,
    );
    const note = (signal: ToolSignal) => {
      if (signal.type === 'tool-progress') updates.push(signal.update);
      else if (signal.type === 'tool.result') results.push(signal);
      else if (signal.type === 'tool-outcome') results.push(signal.result);
      spanEnded.push(recorder.ended === 1);
    };
    const shown$ = runTool(
      deps,
      ROOT_CONTEXT,
    )(run).pipe(
      tap(note),
      finalize(() => run.deadlines.stop()),
      map(({ type }) => (type === 'tool-progress' ? 'p' : 'r')),
    );
    expectObservable(shown$, leave).toBe(out);
    return clock.fired;
  });
  const [context] = contexts;
  if (contexts.length !== 1 || context === undefined) throw new Error(`The tool ran ${contexts.length} times.`);
  const [span] = recorder.spans();
  return { context, result: results[0], results, updates, spanEnded, fired, ending: span && endingOf(span) };
}

const success = { type: 'tool.result', callId: '1:0', content: '2', success: true };
const failure = (code: string, message: string, data: object = {}) => ({
  type: 'tool.result',
  callId: '1:0',
  content: `Tool error: ${message}`,
  success: false,
  error: { code, message, ...data },
});

describe('runTool', () => {
  it('gives the result of a tool that answers at once, without a timer', () => {
    const { result, fired, spanEnded, ending } = draw({ execute: () => ok, out: '(r|)' });
    expect(result).toEqual({ ...success, durationMs: 0 });
    expect(fired).toEqual([]);
    expect(spanEnded).toEqual([true]);
    expect(ending).toEqual(unset);
  });

  it('S1-57 S0-22 gives the result of a promise, how long it took, and calls the timeout off', () => {
    const { result, fired, ending, context } = draw({
      execute: (_, { cold }) => answerWhen(cold('-----r', { r: ok })),
      out: '                   -----(r|)',
    });
    expect(result).toEqual({ ...success, durationMs: 5 });
    expect(fired).toEqual([]);
    expect(ending).toEqual(unset);
    expect(context.signal.aborted).toBe(false);
  });

  it('passes signs of life on as long as the call runs', () => {
    const { updates, spanEnded } = draw({
      execute: ({ progress }, { cold, clock }) => {
        progress(0);
        for (const at of [2, 4, 9]) clock.schedule(at, () => progress(at));
        return answerWhen(cold('-------r', { r: ok }));
      },
      out: 'p-p-p--(r|)',
    });
    expect(updates).toEqual([0, 2, 4]);
    expect(spanEnded).toEqual([false, false, false, true]);
  });

  it('S3-38 S2-35 makes a throw and a rejection an error result, and marks the span', () => {
    const wrong = new RangeError('x must be positive');
    const throwing = () => {
      throw wrong;
    };
    const rejecting: Execute = (_, { cold }) => answerWhen(cold<ToolResult>('--#', {}, wrong));
    for (const [execute, out] of [
      [throwing, '(r|)'],
      [rejecting, '--(r|)'],
    ] as const) {
      const { result, ending } = draw({ execute, out });
      const message = 'RangeError: x must be positive';
      expect(result).toMatchObject(failure('TOOL_FAILED', message));
      const exceptions = ['x must be positive'];
      expect(ending).toEqual({ status: 'ERROR', errorType: 'TOOL_FAILED', exceptions, outcome: undefined });
      recorder.clear();
    }
  });

  it.each([
    [
      'an error of ours, with its code',
      new AgentLoopError('PROVIDER_RATE_LIMIT', 'slow down'),
      'PROVIDER_RATE_LIMIT',
      'slow down',
    ],
    ['a text', 'no', 'TOOL_FAILED', 'Error: no'],
    ['nothing', undefined, 'TOOL_FAILED', 'Error: undefined'],
    ['an error without a name', Object.assign(new Error('no'), { name: '' }), 'TOOL_FAILED', 'Error: no'],
  ])('makes an error result of %s that is thrown', (_, thrown, code, message) => {
    const execute = () => {
      throw thrown;
    };
    expect(draw({ execute, out: '(r|)' }).result).toMatchObject(failure(code, message));
  });

  it.each([
    'null',
    '"2"',
    '2',
    '[]',
    '{}',
    '{"success":true}',
    '{"content":2,"success":true}',
    '{"content":null,"success":true}',
  ])('makes an error result of %s, which is no ToolResult', (rubbish) => {
    const message = 'the tool provider returned no ToolResult; return { toolCallId, content, success }';
    const at = (out: string, execute: Execute) => {
      expect(draw({ execute, out }).result).toMatchObject(failure('TOOL_FAILED', message));
      recorder.clear();
    };
    const answer: ToolResult = JSON.parse(rubbish);
    at('(r|)', () => answer);
    at('-(r|)', (_, { cold }) => answerWhen(cold('-r', { r: answer })));
  });

  it('makes an error result of a tool that returns nothing', () => {
    const { result } = draw({ execute: () => JSON.parse('[]')[0], out: '(r|)' });
    expect(result).toMatchObject({ success: false, error: { code: 'TOOL_FAILED' } });
  });

  it.each([
    [{ content: 'no such fruit', success: false }, 'no such fruit', 'no such fruit'],
    [{ content: 'see the error', success: false, error: 'no such fruit' }, 'see the error', 'no such fruit'],
    [{ content: '', success: false, error: 'no such fruit' }, 'Tool error: no such fruit', 'no such fruit'],
    [{ content: [], success: false }, [], 'the tool reports a failure'],
  ])('S1-48 takes a reported failure %j as it is', (reported, content, message) => {
    const { result, ending } = draw({ execute: () => ({ toolCallId: 'call', ...reported }), out: '(r|)' });
    expect(result).toMatchObject({ content, success: false, error: { code: 'TOOL_FAILED', message } });
    expect(ending).toMatchObject({ status: 'ERROR', errorType: 'TOOL_FAILED', exceptions: [message] });
  });

  it('refuses a result by its bytes, not by its characters', () => {
    const { result } = draw({ execute: () => ({ ...ok, content: '漢'.repeat(3_000_000) }), out: '(r|)' });
    expect(result).toMatchObject({ success: false, error: { code: 'TOOL_TOO_LARGE' } });
  });

  it('takes an empty text as a result', () => {
    const { result } = draw({ execute: () => ({ ...ok, content: '' }), out: '(r|)' });
    expect(result).toEqual({ ...success, content: '', durationMs: 0 });
  });

  it.each([
    ['of the turn', {}, { toolTimeoutMs: 30 }],
    ['of the tool', { timeoutMs: 30 }, { toolTimeoutMs: 10 }],
  ])('S1-57 S0-22 ends a call at the timeout %s, aborts its signal, and takes no later answer', (_, policy, config) => {
    const { result, results, context, ending, fired } = draw({
      execute: (_, { cold }) => answerWhen(cold('40ms r', { r: ok })),
      policy,
      config,
      out: '30ms (r|)',
    });
    const message = 'the tool did not answer within 30 ms (timeoutMs of the tool, or toolTimeoutMs)';
    expect(result).toEqual({
      ...failure('TOOL_TIMEOUT', message, { reason: 'tool_late', details: { limitMs: 30 } }),
      durationMs: 30,
    });
    expect(results).toHaveLength(1);
    expect(context.signal).toMatchObject({ aborted: true, reason: { code: 'TOOL_TIMEOUT' } });
    expect(ending).toEqual({ status: 'ERROR', errorType: 'TOOL_TIMEOUT', exceptions: [message], outcome: undefined });
    expect(fired).toEqual([30]);
  });

  it.each([
    ['of the turn', {}, { toolTimeoutMs: 0 }],
    ['of the tool', { timeoutMs: 0 }, { toolTimeoutMs: 10 }],
  ])('knows no limit where the timeout %s is 0', (_, policy, config) => {
    const { result } = draw({
      execute: (_, { cold }) => answerWhen(cold('9999ms r', { r: ok })),
      policy,
      config,
      out: '9999ms (r|)',
    });
    expect(result).toEqual({ ...success, durationMs: 9_999 });
  });

  describe('in a cancelled turn', () => {
    it('aborts the signal at once, and takes what the tool still returns', () => {
      const abortedAt: number[] = [];
      const { result, ending, fired, context } = draw({
        execute: ({ signal }, { cold, clock }) => {
          signal.addEventListener('abort', () => abortedAt.push(clock.now()));
          return answerWhen(cold('15ms r', { r: ok }));
        },
        cancelAt: 10,
        out: '15ms (r|)',
      });
      expect(abortedAt).toEqual([10]);
      expect(context.signal.reason).toBe(enough);
      expect(result).toEqual({ ...success, durationMs: 15 });
      expect(ending).toEqual(unset);
      expect(fired).toEqual([10]);
    });

    it('takes a throw for the end of a cancelled call', () => {
      const { result, ending } = draw({
        execute: (_, { cold }) => answerWhen(cold<ToolResult>('15ms #', {}, new Error('aborted'))),
        cancelAt: 10,
        out: '15ms (r|)',
      });
      expect(result).toMatchObject(failure('CANCELED', 'Error: aborted'));
      expect(ending).toEqual(canceled);
    });

    it('abandons a tool that does not stop within abortGraceMs', () => {
      const { result, ending, fired } = draw({
        execute: (_, { cold }) => answerWhen(cold('100ms r', { r: ok })),
        cancelAt: 10,
        out: '30ms (r|)',
      });
      const message = 'the tool did not stop within 20 ms of the cancel (abortGraceMs)';
      expect(result).toEqual({
        ...failure('TOOL_ABANDONED', message, { reason: 'abandoned', details: { limitMs: 20 } }),
        durationMs: 30,
      });
      expect(ending).toEqual(canceled);
      expect(fired).toEqual([10, 30]);
    });

    it('sets no time for a tool that has answered: what is waited for is an extension', () => {
      const scheduled: number[] = [];
      const extension = { name: 'slow', timeoutMs: 0, afterToolCall: () => new Promise<undefined>(() => {}) };
      marbles(({ clock, cold, expectObservable }) => {
        const schedule: Clock['schedule'] = (ms, task) => {
          scheduled.push(ms);
          return clock.schedule(ms, task);
        };
        const counting: Clock = { now: () => clock.now(), schedule };
        const deps = turnDeps({ clock: counting, toolTimeoutMs: 0, abortGraceMs: 20, extensions: [extension] });
        clock.schedule(10, () => deps.inbox.scope.abort(enough));
        const run = runOf(deps, () => answerWhen(cold('-----r', { r: ok })), {});
        expectObservable(runTool(deps, ROOT_CONTEXT)(run).pipe(map(() => 'r'))).toBe('10ms (r|)');
      });
      expect(scheduled).toEqual([]);
    });

    it('gives the same time to a tool that is cancelled while it is called', () => {
      const { result } = draw({
        execute: (_, { cold, cancel }) => {
          cancel();
          return answerWhen(cold('100ms r', { r: ok }));
        },
        out: '20ms (r|)',
      });
      expect(result).toMatchObject({ error: { code: 'TOOL_ABANDONED' } });
    });
  });

  it('aborts the signal, ends the span and drops the timers when it is left', () => {
    const { context, results, ending, fired } = draw({
      execute: ({ signal }, { cold }) => {
        void signal;
        return answerWhen(cold('15ms r', { r: ok }));
      },
      out: '',
      leave: '10ms !',
    });
    expect(context.signal).toMatchObject({ aborted: true, reason: { code: 'LEFT' } });
    expect(results).toEqual([]);
    expect(ending).toEqual(canceled);
    expect(fired).toEqual([]);
  });

  it('calls the tool with the context of its span, which stands below the one given', () => {
    const { context } = draw({ execute: () => ok, out: '(r|)' });
    const [span] = recorder.spans();
    expect(trace.getSpan(context.traceContext)?.spanContext()).toEqual(span?.spanContext());
    expect(span).toMatchObject({
      name: 'tool[count]',
      attributes: { 'gen_ai.tool.call.id': 'call', 'millrace.call.id': '1:0', 'millrace.task.id': 'task' },
    });
  });
});

import { describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT } from '@opentelemetry/api';
import { map, type Observable, of, Subject, type Subscription, take } from 'rxjs';
import type { AgentLoopConfig } from '../../../src/core/config.ts';
import { AgentLoopError } from '../../../src/core/errors.ts';
import { journal } from '../../../src/core/operators/journal-operators.ts';
import { executeTools, runToolCalls } from '../../../src/core/operators/tool-operators.ts';
import type { Signal } from '../../../src/core/signals.ts';
import type { TurnDeps } from '../../../src/core/turn-deps.ts';
import type {
  ToolContext,
  ToolDefinition,
  ToolPolicy,
  ToolProvider,
  ToolResult,
} from '../../../src/tools/interfaces.ts';
import { plainTools } from '../plain-tools.ts';
import { answeringStore } from './answering-store.ts';
import { answerWhen, type MarbleHelpers, marbles } from './marbles.ts';
import { openBatch, shown } from './open-batch.ts';
import { canceled, endingOf, recordedSpans, unset } from './recorded-spans.ts';
import { turnDeps } from './turn-deps.ts';

const recorder = recordedSpans();
const enough = new AgentLoopError('CANCELED', 'enough');

interface TimedTool extends ToolPolicy {
  /** When and how the tool answers, in marbles: `r` a result, `f` a reported failure. */
  readonly answers: string;
  /** When and how the check of its arguments answers, `y` or `n`; default: no check. */
  readonly checks?: string;
}

/** What happens in a batch and when, in the order in which it happens. */
type Timeline = string[];

/** Tools that answer in virtual time; the timeline tells when each call started and was told to stop. */
function timedTools(
  tools: Readonly<Record<string, TimedTool>>,
  timeline: Timeline,
  { cold, clock }: MarbleHelpers,
): ToolProvider {
  const checkOf = (checks: string | undefined): Pick<ToolDefinition, 'checkArguments'> => {
    if (checks === undefined) return {};
    const answers = { y: { ok: true, value: 'checked' }, n: { ok: false, message: 'wrong' } } as const;
    return { checkArguments: () => answerWhen(cold(checks, answers)) };
  };
  return {
    getTools: () =>
      Object.entries(tools).map(([name, { answers: _, checks, ...policy }]) => ({
        type: 'function',
        function: { name, description: name, parameters: { type: 'object' } },
        ...policy,
        ...checkOf(checks),
      })),
    executeTool(call, { callId, signal }: ToolContext) {
      timeline.push(`${clock.now()}: ${callId} starts`);
      signal.addEventListener('abort', () => timeline.push(`${clock.now()}: ${callId} is aborted`));
      const result: ToolResult = { toolCallId: call.id, content: 'fine', success: true };
      const answers = tools[call.function.name]?.answers ?? '#';
      return answerWhen(cold(answers, { r: result, f: { ...result, success: false } }, new Error('broken')));
    },
  };
}

interface Plan {
  readonly tools: Readonly<Record<string, TimedTool>>;
  /** What the model asks for, by name. */
  readonly calls: readonly string[];
  readonly config?: Partial<AgentLoopConfig>;
  /** What happens to the batch at a time, in ms. */
  readonly meanwhile?: readonly [at: number, act: (deps: TurnDeps, batch: Subscription) => void];
}

/** Runs the open batch of a response, its commits durable at once. */
function timelineOf({ tools, calls, config, meanwhile }: Plan): Timeline {
  const timeline: Timeline = [];
  marbles((helpers) => {
    const { clock } = helpers;
    const provider = timedTools(tools, timeline, helpers);
    const deps = turnDeps({ clock, toolProviders: [provider], abortGraceMs: 20, ...config });
    const at = (what: string) => timeline.push(`${clock.now()}: ${what}`);
    const batch = executeTools(
      deps,
      ROOT_CONTEXT,
    )(openBatch(deps, calls).after)
      .pipe(journal({ journal: undefined, clock, storeDeadlineMs: 1_000 }), map(shown))
      .subscribe({ next: at, complete: () => at('complete'), error: (error) => at(`error ${error.code}`) });
    if (meanwhile) clock.schedule(meanwhile[0], () => meanwhile[1](deps, batch));
  });
  return timeline;
}

const cancel = (deps: TurnDeps) => deps.scope.abort(enough);
const leave = (_: TurnDeps, batch: Subscription) => batch.unsubscribe();

describe('executeTools', () => {
  it('runs calls in parallel, commits each result when it comes, and completes behind the last', () => {
    const timeline = timelineOf({
      tools: { slow: { answers: '----r' }, quick: { answers: '--r' } },
      calls: ['slow', 'quick', 'slow'],
    });
    expect(timeline).toEqual([
      '0: 1:0 starts',
      '0: 1:1 starts',
      '0: 1:2 starts',
      '2: result 1:1 ok',
      '4: result 1:0 ok',
      '4: result 1:2 ok',
      '4: complete',
    ]);
    expect(recorder.tree()).toBe('tools.execute\n  tool[slow]\n  tool[quick]\n  tool[slow]');
    expect(recorder.spans().map(endingOf)).toEqual([unset, unset, unset, unset]);
  });

  it('S1-52 starts at most toolConcurrency at a time, the next one with the result that frees its place', () => {
    const timeline = timelineOf({
      tools: { slow: { answers: '----r' }, quick: { answers: '-r' } },
      calls: ['slow', 'quick', 'quick', 'slow'],
      config: { toolConcurrency: 2 },
    });
    expect(timeline).toEqual([
      '0: 1:0 starts',
      '0: 1:1 starts',
      '1: result 1:1 ok, intent 1:2',
      '1: 1:2 starts',
      '2: result 1:2 ok, intent 1:3',
      '2: 1:3 starts',
      '4: result 1:0 ok',
      '6: result 1:3 ok',
      '6: complete',
    ]);
  });

  it('runs a sequential tool alone, in its place in the order of calls', () => {
    const timeline = timelineOf({
      tools: { free: { answers: '--r' }, alone: { answers: '-r', sequential: true } },
      calls: ['free', 'free', 'alone', 'alone', 'free', 'free'],
    });
    expect(timeline).toEqual([
      '0: 1:0 starts',
      '0: 1:1 starts',
      '2: result 1:0 ok',
      '2: result 1:1 ok, intent 1:2',
      '2: 1:2 starts',
      '3: result 1:2 ok, intent 1:3',
      '3: 1:3 starts',
      '4: result 1:3 ok, intent 1:4, intent 1:5',
      '4: 1:4 starts',
      '4: 1:5 starts',
      '6: result 1:4 ok',
      '6: result 1:5 ok',
      '6: complete',
    ]);
  });

  it('S1-56 checks the arguments of a call while others run, and starts or refuses it then', () => {
    const timeline = timelineOf({
      tools: {
        plain: { answers: '------r' },
        fine: { answers: '-r', checks: '--y' },
        wrong: { answers: '-r', checks: '---n' },
      },
      calls: ['plain', 'fine', 'wrong'],
    });
    expect(timeline).toEqual([
      '0: 1:0 starts',
      '2: intent 1:1',
      '2: 1:1 starts',
      '3: result 1:2 TOOL_ARGUMENTS',
      '3: result 1:1 ok',
      '6: result 1:0 ok',
      '6: complete',
    ]);
  });

  it('lets a call whose arguments are being checked hold a place', () => {
    const timeline = timelineOf({
      tools: { checked: { answers: '-r', checks: '---y' }, plain: { answers: '-r' } },
      calls: ['checked', 'plain'],
      config: { toolConcurrency: 1 },
    });
    expect(timeline).toEqual([
      '3: intent 1:0',
      '3: 1:0 starts',
      '4: result 1:0 ok, intent 1:1',
      '4: 1:1 starts',
      '5: result 1:1 ok',
      '5: complete',
    ]);
  });

  it('starts a call of a later wave once its intent is durable', () => {
    const timeline: Timeline = [];
    marbles((helpers) => {
      const { clock, cold } = helpers;
      const provider = timedTools({ quick: { answers: '--r' } }, timeline, helpers);
      const deps = turnDeps({ clock, toolProviders: [provider], toolConcurrency: 1 });
      const { journal: target } = answeringStore(clock, [cold('-----a')]);
      executeTools(
        deps,
        ROOT_CONTEXT,
      )(openBatch(deps, ['quick', 'quick']).after)
        .pipe(journal({ journal: target, clock, storeDeadlineMs: 1_000 }), map(shown))
        .subscribe((what) => timeline.push(`${clock.now()}: ${what}`));
    });
    expect(timeline).toEqual(['0: 1:0 starts', '7: result 1:0 ok, intent 1:1', '7: 1:1 starts', '9: result 1:1 ok']);
  });

  it('S1-55 goes on behind a failed call, and marks only its span', () => {
    const timeline = timelineOf({
      tools: { broken: { answers: '-#' }, fine: { answers: '--r' } },
      calls: ['broken', 'fine'],
    });
    expect(timeline.slice(2)).toEqual(['1: result 1:0 TOOL_FAILED', '2: result 1:1 ok', '2: complete']);
    expect(recorder.spans().map((span) => [span.name, endingOf(span).errorType])).toEqual([
      ['tools.execute', undefined],
      ['tool[broken]', 'TOOL_FAILED'],
      ['tool[fine]', undefined],
    ]);
  });

  describe("with toolFailureMode 'fail'", () => {
    const config = { toolFailureMode: 'fail', toolConcurrency: 2 } as const;

    it('aborts the others, starts no more, and errors once all have stopped', () => {
      const timeline = timelineOf({
        tools: { broken: { answers: '-#' }, slow: { answers: '---#' }, fine: { answers: '--r' } },
        calls: ['broken', 'slow', 'fine'],
        config,
      });
      expect(timeline).toEqual([
        '0: 1:0 starts',
        '0: 1:1 starts',
        '1: 1:1 is aborted',
        '1: result 1:0 TOOL_FAILED',
        '3: result 1:1 CANCELED',
        '3: error TOOL_FAILED',
      ]);
      expect(recorder.spans().map((span) => endingOf(span).outcome)).toEqual([undefined, undefined, 'canceled']);
    });

    it('abandons those that do not stop', () => {
      const timeline = timelineOf({
        tools: { broken: { answers: '-f' }, deaf: { answers: '99ms r' } },
        calls: ['broken', 'deaf'],
        config,
      });
      expect(timeline.slice(-2)).toEqual(['21: result 1:1 TOOL_ABANDONED, turn.failed', '21: complete']);
    });

    it('fails for a call that may not run, also where the others have their intents', () => {
      const timeline = timelineOf({ tools: { fine: { answers: '--r' } }, calls: ['fine', 'unknown', 'fine'], config });
      expect(timeline).not.toContain('0: 1:0 starts');
      expect(timeline.at(-1)).toBe('0: error TOOL_NOT_FOUND');
    });
  });

  it('S4-39 on cancel starts no call, gives those that run their time, and completes', () => {
    const timeline = timelineOf({
      tools: { stops: { answers: '-----r' }, deaf: { answers: '99ms r' }, never: { answers: '-r' } },
      calls: ['stops', 'deaf', 'never'],
      config: { toolConcurrency: 2 },
      meanwhile: [2, cancel],
    });
    expect(timeline).toEqual([
      '0: 1:0 starts',
      '0: 1:1 starts',
      '2: 1:0 is aborted',
      '2: 1:1 is aborted',
      '5: result 1:0 ok',
      '22: result 1:1 TOOL_ABANDONED',
      '22: complete',
    ]);
    expect(recorder.spans().map((span) => [span.name, endingOf(span)])).toEqual([
      ['tools.execute', canceled],
      ['tool[stops]', unset],
      ['tool[deaf]', canceled],
    ]);
  });

  it('on cancel does not wait for checks of arguments', () => {
    const timeline = timelineOf({
      tools: { checked: { answers: '-r', checks: '99ms y' } },
      calls: ['checked'],
      meanwhile: [2, cancel],
    });
    expect(timeline).toEqual(['2: complete']);
  });

  it('starts no more calls once the turn is asked to pause, and completes when none runs', () => {
    const timeline = timelineOf({
      tools: { slow: { answers: '----r' } },
      calls: ['slow', 'slow'],
      config: { toolConcurrency: 1 },
      meanwhile: [2, ({ inbox }) => inbox.requestPause('lunch')],
    });
    expect(timeline).toEqual(['0: 1:0 starts', '4: result 1:0 ok', '4: complete']);
  });

  it('aborts all that runs when it is left, and drops the results', () => {
    const timeline = timelineOf({
      tools: { slow: { answers: '----r' }, checked: { answers: '-r', checks: '---y' } },
      calls: ['slow', 'slow', 'checked'],
      meanwhile: [2, leave],
    });
    expect(timeline).toEqual(['0: 1:0 starts', '0: 1:1 starts', '2: 1:0 is aborted', '2: 1:1 is aborted']);
    expect(recorder.spans().map(endingOf)).toEqual([canceled, canceled, canceled]);
  });

  it('S0-65 S2-49 runs 5,000 calls that answer at once, one at a time, in call order, on a flat stack', () => {
    const order: string[] = [];
    const provider = plainTools({ note: ({ callId }) => order.push(callId) });
    const deps = turnDeps({ toolProviders: [provider], toolConcurrency: 1, enableTracing: false });
    const calls = Array.from({ length: 5_000 }, () => 'note');
    let ended = false;
    executeTools(
      deps,
      ROOT_CONTEXT,
    )(openBatch(deps, calls).after)
      .pipe(journal({ journal: undefined, clock: deps.config.clock, storeDeadlineMs: 1_000 }))
      .subscribe({
        complete: () => {
          ended = true;
        },
      });
    expect(ended).toBe(true);
    expect(order).toEqual(calls.map((_, index) => `1:${index}`));
  });
});

describe('runToolCalls', () => {
  /** Runs the batch of a response that comes from `source$`. */
  function running(plan: Omit<Plan, 'calls'> & { readonly calls: readonly string[] }, after: readonly Signal[] = []) {
    const timeline: Timeline = [];
    marbles((helpers) => {
      const { clock } = helpers;
      const deps = turnDeps({ clock, toolProviders: [timedTools(plan.tools, timeline, helpers)], ...plan.config });
      const at = (what: string) => timeline.push(`${clock.now()}: ${what}`);
      const batch = of<Signal[]>({ type: 'text', text: 'Let me count.' }, openBatch(deps, plan.calls), ...after)
        .pipe(
          runToolCalls(deps, ROOT_CONTEXT),
          journal({ journal: undefined, clock, storeDeadlineMs: 1_000 }),
          map(shown),
        )
        .subscribe({ next: at, complete: () => at('complete'), error: (error) => at(`error ${error.code}`) });
      const { meanwhile } = plan;
      if (meanwhile) clock.schedule(meanwhile[0], () => meanwhile[1](deps, batch));
    });
    return timeline;
  }

  it('passes everything on, runs the calls of a response, and completes behind both', () => {
    const tail: Signal = { type: 'reasoning', text: 'hm' };
    expect(running({ tools: { count: { answers: '--r' } }, calls: ['count'] }, [tail])).toEqual([
      '0: text',
      '0: llm.done, intent 1:0',
      '0: 1:0 starts',
      '0: reasoning',
      '2: result 1:0 ok',
      '2: complete',
    ]);
  });

  it('S3-37 starts a call once the response that asks for it is durable', () => {
    const timeline: Timeline = [];
    marbles((helpers) => {
      const { clock, cold } = helpers;
      const deps = turnDeps({ clock, toolProviders: [timedTools({ count: { answers: '-r' } }, timeline, helpers)] });
      const { journal: target } = answeringStore(clock, [cold('-----a')]);
      of(openBatch(deps, ['count']))
        .pipe(runToolCalls(deps, ROOT_CONTEXT), journal({ journal: target, clock, storeDeadlineMs: 100 }), map(shown))
        .subscribe((what) => timeline.push(`${clock.now()}: ${what}`));
    });
    expect(timeline).toEqual(['5: llm.done, intent 1:0', '5: 1:0 starts', '6: result 1:0 ok']);
  });

  it('does nothing for a response without calls', () => {
    const end: Signal = { type: 'text', text: 'Done.' };
    marbles(({ hot, expectObservable, expectSubscriptions }) => {
      const source$ = hot<Signal>('-t-|', { t: end });
      const left$ = hot<Signal>('-t-#', { t: end });
      const run = () => runToolCalls(turnDeps(), ROOT_CONTEXT);
      expectObservable(source$.pipe(run())).toBe('-t-|', { t: end });
      expectSubscriptions(source$.subscriptions).toBe('^--!');
      expectObservable(left$.pipe(run())).toBe('-t-#', { t: end });
      expectObservable(hot<Signal>('-t-t', { t: end }).pipe(run()), '--!').toBe('-t', { t: end });
    });
    expect(recorder.started).toBe(0);
  });

  it('ends the turn in one append with the last result, so that a crash in between cannot let it go on', () => {
    const timeline = running({
      tools: { broken: { answers: '-#' } },
      calls: ['broken'],
      config: { toolFailureMode: 'fail' },
    });
    expect(timeline.slice(-2)).toEqual(['1: result 1:0 TOOL_FAILED, turn.failed', '1: complete']);
  });

  it('S0-21 fails the turn for a single call that may not run', () => {
    const config = { toolFailureMode: 'fail' } as const;
    expect(running({ tools: { fine: { answers: '-r' } }, calls: ['unknown'], config })).toEqual([
      '0: text',
      '0: llm.done',
      '0: result 1:0 TOOL_NOT_FOUND, turn.failed',
      '0: complete',
    ]);
  });

  it('writes no intent of a call beside one that fails the turn because it may not run', () => {
    const config = { toolFailureMode: 'fail' } as const;
    expect(running({ tools: { fine: { answers: '-r' } }, calls: ['fine', 'unknown', 'fine'], config })).toEqual([
      '0: text',
      '0: llm.done',
      '0: result 1:1 TOOL_NOT_FOUND',
      '0: error TOOL_NOT_FOUND',
    ]);
  });

  it('W-19 stops a call that leaves the turn while it is called, and sets no timer for it', () => {
    const fired = marbles(({ clock, cold }) => {
      const source$ = new Subject<Signal>();
      const provider = plainTools({
        leaver: () => {
          turn.unsubscribe();
          return answerWhen(cold('9ms r'));
        },
      });
      const deps = turnDeps({ clock, toolProviders: [provider], abortGraceMs: 20, toolTimeoutMs: 50 });
      const turn = source$
        .pipe(runToolCalls(deps, ROOT_CONTEXT), journal({ journal: undefined, clock, storeDeadlineMs: 1_000 }))
        .subscribe();
      source$.next(openBatch(deps, ['leaver', 'leaver']));
      return clock.fired;
    });
    expect(fired).toEqual([]);
    expect(recorder.spans().map(endingOf)).toEqual([canceled, canceled]);
  });

  it('aborts the calls when it is left', () => {
    const timeline = running({ tools: { count: { answers: '---r' } }, calls: ['count'], meanwhile: [1, leave] });
    expect(timeline.slice(-2)).toEqual(['0: 1:0 starts', '1: 1:0 is aborted']);
  });

  it('starts no call of a batch whose response was left before it was durable', () => {
    const timeline: Timeline = [];
    marbles((helpers) => {
      const { clock } = helpers;
      const deps = turnDeps({ clock, toolProviders: [timedTools({ count: { answers: '-r' } }, timeline, helpers)] });
      const commits: Signal[] = [];
      of(openBatch(deps, ['count']))
        .pipe(runToolCalls(deps, ROOT_CONTEXT), take(1))
        .subscribe((signal) => commits.push(signal));
      const [commit] = commits;
      if (commit?.type === 'commit') commit.durable?.();
    });
    expect(timeline).toEqual([]);
    expect(recorder.started).toBe(0);
  });

  it('starts no more synchronous calls behind a subscriber who leaves at a result', () => {
    let runs = 0;
    const deps = turnDeps({ toolProviders: [plainTools({ count: () => ++runs })] });
    const results: string[] = [];
    const source$: Observable<Signal> = of(openBatch(deps, ['count', 'count', 'count']));
    source$
      .pipe(
        runToolCalls(deps, ROOT_CONTEXT),
        journal({ journal: undefined, clock: deps.config.clock, storeDeadlineMs: 1_000 }),
        map(shown),
        take(2),
      )
      .subscribe((what) => results.push(what));
    expect(results).toEqual(['llm.done, intent 1:0, intent 1:1, intent 1:2', 'result 1:0 ok']);
    expect(runs).toBe(1);
  });
});

import { describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT } from '@opentelemetry/api';
import { AgentLoopError } from 'millrace';
import { executeTools, journal } from 'millrace/internals';
import type { TurnDeps } from 'millrace/operators';
import { map } from 'rxjs';
import { plainTools } from '../plain-tools.ts';
import { answeringStore } from './answering-store.ts';
import { leave, type Plan, type Timeline, timedTools, timelineOf } from './batch-timeline.ts';
import { marbles } from './marbles.ts';
import { openBatch, shown } from './open-batch.ts';
import { canceled, endingOf, recordedSpans, unset } from './recorded-spans.ts';
import { turnDeps } from './turn-deps.ts';

const recorder = recordedSpans();
const enough = new AgentLoopError('CANCELED', 'enough');
const cancel = (deps: TurnDeps) => deps.inbox.scope.abort(enough);

/** Runs the open batch of a response. */
const executing = (plan: Plan): Timeline =>
  timelineOf(plan, (deps) => executeTools(deps, ROOT_CONTEXT)(openBatch(deps, plan.calls).after));

describe('executeTools', () => {
  it('runs calls in parallel, commits each result when it comes, and completes behind the last', () => {
    const timeline = executing({
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
    const timeline = executing({
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
    const timeline = executing({
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
    const timeline = executing({
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
    const timeline = executing({
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
    const timeline = executing({
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
      const timeline = executing({
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
      const timeline = executing({
        tools: { broken: { answers: '-f' }, deaf: { answers: '99ms r' } },
        calls: ['broken', 'deaf'],
        config,
      });
      expect(timeline.slice(-2)).toEqual(['21: result 1:1 TOOL_ABANDONED, turn.failed', '21: complete']);
    });

    it('fails for a call that may not run, also where the others have their intents', () => {
      const timeline = executing({ tools: { fine: { answers: '--r' } }, calls: ['fine', 'unknown', 'fine'], config });
      expect(timeline).not.toContain('0: 1:0 starts');
      expect(timeline.at(-1)).toBe('0: error TOOL_NOT_FOUND');
    });
  });

  it('S4-39 on cancel starts no call, gives those that run their time, and completes', () => {
    const timeline = executing({
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
    const timeline = executing({
      tools: { checked: { answers: '-r', checks: '99ms y' } },
      calls: ['checked'],
      meanwhile: [2, cancel],
    });
    expect(timeline).toEqual(['2: complete']);
  });

  it('starts no more calls once the turn is asked to pause, and completes when none runs', () => {
    const timeline = executing({
      tools: { slow: { answers: '----r' } },
      calls: ['slow', 'slow'],
      config: { toolConcurrency: 1 },
      meanwhile: [2, ({ inbox }) => inbox.requestPause('lunch')],
    });
    expect(timeline).toEqual(['0: 1:0 starts', '4: result 1:0 ok', '4: complete']);
  });

  it('aborts all that runs when it is left, and drops the results', () => {
    const timeline = executing({
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
      .pipe(journal({ journal: undefined, clock: deps.segment.config.clock, storeDeadlineMs: 1_000 }))
      .subscribe({
        complete: () => {
          ended = true;
        },
      });
    expect(ended).toBe(true);
    expect(order).toEqual(calls.map((_, index) => `1:${index}`));
  });
});

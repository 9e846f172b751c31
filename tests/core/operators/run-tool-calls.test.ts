import { describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT } from '@opentelemetry/api';
import { map, type Observable, of, Subject, take } from 'rxjs';
import type { Signal } from '../../../src/core/journal/signals.ts';
import { journal } from '../../../src/core/ownership/journal-operators.ts';
import { runToolCalls } from '../../../src/core/tool-call/tool-operators.ts';
import { plainTools } from '../plain-tools.ts';
import { answeringStore } from './answering-store.ts';
import { leave, type Plan, type Timeline, timedTools, timelineOf } from './batch-timeline.ts';
import { answerWhen, marbles } from './marbles.ts';
import { openBatch, shown } from './open-batch.ts';
import { canceled, endingOf, recordedSpans } from './recorded-spans.ts';
import { turnDeps } from './turn-deps.ts';

const recorder = recordedSpans();

describe('runToolCalls', () => {
  /** Runs the batch of a response, between what comes before and after it. */
  const running = (plan: Plan, after: readonly Signal[] = []): Timeline =>
    timelineOf(plan, (deps) =>
      of<Signal[]>({ type: 'text', text: 'Let me count.' }, openBatch(deps, plan.calls), ...after).pipe(
        runToolCalls(deps, ROOT_CONTEXT),
      ),
    );

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

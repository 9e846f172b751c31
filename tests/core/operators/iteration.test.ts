import { describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT } from '@opentelemetry/api';
import { AgentLoopError, type LLMCallParams, type LLMChunk, type LLMProvider, type LLMResponse } from 'millrace';
import { journal, runIteration } from 'millrace/internals';
import type { Signal, TurnDeps } from 'millrace/operators';
import { concat, firstValueFrom, lastValueFrom, map, NEVER, Observable, of, Subject, skip, take, toArray } from 'rxjs';
import { plainTools } from '../plain-tools.ts';
import { answeringStore } from './answering-store.ts';
import { leave, type Plan, type Timeline, timedTools, timelineOf } from './batch-timeline.ts';
import { answerWhen, marbles } from './marbles.ts';
import { shown } from './open-batch.ts';
import { canceled, endingOf, recordedSpans, unset } from './recorded-spans.ts';
import { startedState, turnDeps } from './turn-deps.ts';

const recorder = recordedSpans();
const broken = new AgentLoopError('PROVIDER_SERVER', 'the model answered 500');
const usage = { promptTokens: 12, completionTokens: 3, totalTokens: 15 };
const response: LLMResponse = { message: { role: 'assistant', content: 'Two apples.' }, finishReason: 'stop', usage };
const values = {
  t: { type: 'text', text: 'Two' },
  d: { type: 'done', response },
} satisfies Record<string, LLMChunk>;

/** The signals of the first iteration of a turn; unsubscribing leaves it. */
function iterationOf(deps: TurnDeps): Observable<Signal> {
  const start = { do: 'call', start: { type: 'llm.start', iteration: 1, attempt: 1 } } as const;
  return new Observable((to) => runIteration(deps, ROOT_CONTEXT)(startedState(), start, to));
}

function streaming(stream: NonNullable<LLMProvider['stream']>): LLMProvider {
  return { call: () => Promise.reject(broken), stream };
}

function doneWith(names: readonly string[]): LLMChunk {
  const toolCalls = names.map((name, index) => ({
    id: `call_${index}`,
    type: 'function' as const,
    function: { name, arguments: JSON.stringify({ index }) },
  }));
  return { type: 'done', response: { message: { role: 'assistant', content: null }, toolCalls } };
}

/** A model that asks for the tools named, and says something before and after. */
function asking(names: readonly string[]): LLMProvider {
  return streaming(() =>
    concat(
      of<LLMChunk[]>({ type: 'text', text: 'Let me count.' }, doneWith(names), { type: 'reasoning', text: 'hm' }),
      NEVER,
    ),
  );
}

/** How the spans with that name ended. */
function endingsOf(...names: readonly string[]) {
  return recorder
    .spans()
    .filter(({ name }) => names.includes(name))
    .map(endingOf);
}

describe('the model call of an iteration', () => {
  const kindOf = map((signal: Signal) =>
    signal.type === 'commit' ? signal.steps.map(({ record }) => record.type).join(' ') : signal.type,
  );
  const kinds = { s: 'llm.start', t: 'text', e: 'llm.done turn.done' };
  const calling = (llmProvider: LLMProvider) => iterationOf(turnDeps({ llmProvider })).pipe(kindOf);

  it('commits the start, streams, and commits the response; leaving closes the stream', () => {
    marbles(({ cold, expectObservable, expectSubscriptions }) => {
      const answer$ = cold<LLMChunk>('-t-d', values);
      expectObservable(calling(streaming(() => answer$))).toBe('st-(e|)', kinds);
      expectObservable(calling(streaming(() => answer$)), '--!').toBe('st', kinds);
      expectSubscriptions(answer$.subscriptions).toBe(['^--!', '^-!']);
    });
    expect(endingsOf('llm.call')).toEqual([unset, canceled]);
    expect(endingsOf('iteration[1]')).toEqual([unset, unset]);
  });

  it('calls a provider that does not stream, and takes no answer that comes after it was left', () => {
    const asked: LLMCallParams[] = [];
    marbles(({ cold, expectObservable }) => {
      const call = (params: LLMCallParams) => {
        asked.push(params);
        return answerWhen(cold('--d', { d: response }));
      };
      const other = { ...streaming(() => cold('#')), call, capabilities: { streaming: false } };
      expectObservable(calling({ call })).toBe('s-(e|)', kinds);
      expectObservable(calling(other), '-!').toBe('s', kinds);
    });
    expect(asked).toHaveLength(2);
    expect(asked.map(({ signal }) => signal?.aborted)).toEqual([false, true]);
  });

  it('makes no request after a subscriber who leaves at the start', () => {
    let requests = 0;
    const count = () => {
      requests++;
      throw broken;
    };
    calling(streaming(count)).pipe(take(1)).subscribe();
    expect(requests).toBe(0);
    expect(endingsOf('llm.call')).toEqual([]);
  });

  it('W-19 fails with what the provider throws', () => {
    const throwing = streaming(() => {
      throw new TypeError('no');
    });
    marbles(({ expectObservable }) =>
      expectObservable(calling(throwing)).toBe('(s#)', kinds, expect.objectContaining({ code: 'PROVIDER_FAILED' })),
    );
    const failed = { status: 'ERROR', errorType: 'PROVIDER_FAILED' };
    expect(endingsOf('llm.call', 'iteration[1]')).toMatchObject([failed, failed]);
  });

  it('marks the span of a call whose provider completes without a response', () => {
    marbles(({ cold, expectObservable }) => {
      const error = expect.objectContaining({ code: 'PROVIDER_PROTOCOL' });
      expectObservable(calling(streaming(() => cold('-|')))).toBe('s#', kinds, error);
    });
    expect(endingsOf('llm.call')).toMatchObject([{ status: 'ERROR', errorType: 'PROVIDER_PROTOCOL' }]);
  });

  it.each(['completes', 'fails'])(
    'completes with the answer while afterLLMCall is asked: the stream %s',
    async (how) => {
      const asked$ = new Subject<undefined>();
      const extensions = [{ name: 'slow', afterLLMCall: () => firstValueFrom(asked$) }];
      const answer$ = new Subject<LLMChunk>();
      const deps = turnDeps({ llmProvider: streaming(() => answer$), extensions });
      const seen = lastValueFrom(iterationOf(deps).pipe(kindOf, toArray()));
      for (const chunk of [values.t, values.d, values.t, values.d]) answer$.next(chunk);
      if (how === 'fails') answer$.error(broken);
      else answer$.complete();
      asked$.next(undefined);
      expect(await seen).toEqual([kinds.s, kinds.t, kinds.e]);
      expect(endingsOf('llm.call', 'iteration[1]')).toEqual([unset, unset]);
    },
  );

  it('starts no span of tools for a response without calls', () => {
    marbles(({ cold, expectObservable, expectSubscriptions }) => {
      const answer$ = cold<LLMChunk>('-t-d-|', values);
      const failing$ = cold<LLMChunk>('-t-#', values, broken);
      expectObservable(calling(streaming(() => answer$))).toBe('st-(e|)', kinds);
      expectSubscriptions(answer$.subscriptions).toBe('^--!');
      expectObservable(calling(streaming(() => failing$))).toBe('st-#', kinds, broken);
    });
    expect(recorder.spans().map(({ name }) => name)).not.toContain('tools.execute');
  });
});

describe('the tools of an iteration', () => {
  /** Runs the batch of a response. */
  const running = ({ calls, config, ...plan }: Plan): Timeline =>
    timelineOf({ calls, ...plan, config: { llmProvider: asking(calls), ...config } }, (deps) =>
      iterationOf(deps).pipe(skip(1)),
    );

  it('run behind the deltas and the response, and the iteration completes with both; what follows the answer is dropped', () => {
    expect(running({ tools: { count: { answers: '--r' } }, calls: ['count'] })).toEqual([
      '0: text',
      '0: llm.done, intent 1:0',
      '0: 1:0 starts',
      '2: result 1:0 ok',
      '2: complete',
    ]);
    const ended = recorder.inOrderOfEnd().map(({ name }) => name);
    expect(ended).toEqual(['llm.call', 'tool[count]', 'tools.execute', 'iteration[1]']);
  });

  it('S3-37 start once the response that asks for them is durable', () => {
    const timeline: Timeline = [];
    marbles((helpers) => {
      const { clock, cold } = helpers;
      const toolProviders = [timedTools({ count: { answers: '-r' } }, timeline, helpers)];
      const deps = turnDeps({ clock, toolProviders, llmProvider: asking(['count']) });
      const { journal: target } = answeringStore(clock, ['at once', cold('-----a')]);
      iterationOf(deps)
        .pipe(journal({ journal: target, clock, storeDeadlineMs: 100 }), map(shown))
        .subscribe((what) => timeline.push(`${clock.now()}: ${what}`));
    });
    const after = ['5: llm.done, intent 1:0', '5: 1:0 starts', '6: result 1:0 ok'];
    expect(timeline).toEqual(['0: llm.start', '0: text', ...after]);
  });

  it('end the turn in one append with the last result, so that a crash in between cannot let it continue', () => {
    const timeline = running({
      tools: { broken: { answers: '-#' } },
      calls: ['broken'],
      config: { toolFailureMode: 'fail' },
    });
    expect(timeline.slice(-2)).toEqual(['1: result 1:0 TOOL_FAILED, turn.failed', '1: complete']);
    expect(endingsOf('iteration[1]')).toMatchObject([{ status: 'ERROR' }]);
  });

  it('S0-21 fail the turn for a single call that may not run', () => {
    const config = { toolFailureMode: 'fail' } as const;
    expect(running({ tools: { fine: { answers: '-r' } }, calls: ['unknown'], config })).toEqual([
      '0: text',
      '0: llm.done',
      '0: result 1:0 TOOL_NOT_FOUND, turn.failed',
      '0: complete',
    ]);
  });

  it('write no intent of a call beside one that fails the turn because it may not run', () => {
    const config = { toolFailureMode: 'fail' } as const;
    expect(running({ tools: { fine: { answers: '-r' } }, calls: ['fine', 'unknown', 'fine'], config })).toEqual([
      '0: text',
      '0: llm.done',
      '0: result 1:1 TOOL_NOT_FOUND',
      '0: error TOOL_NOT_FOUND',
    ]);
  });

  it('W-19 stop a call that leaves the turn while it is called, and set no timer for it', () => {
    const fired = marbles(({ clock, cold }) => {
      const provider = plainTools({
        leaver: () => {
          turn.unsubscribe();
          return answerWhen(cold('9ms r'));
        },
      });
      const answer$ = cold<LLMChunk>('-d', { d: doneWith(['leaver', 'leaver']) });
      const limits = { abortGraceMs: 20, toolTimeoutMs: 50, modelSilenceMs: 0 };
      const deps = turnDeps({ clock, toolProviders: [provider], llmProvider: streaming(() => answer$), ...limits });
      const turn = iterationOf(deps)
        .pipe(journal({ journal: undefined, clock, storeDeadlineMs: 1_000 }))
        .subscribe();
      return clock.fired;
    });
    expect(fired).toEqual([]);
    expect(endingsOf('tool[leaver]', 'tools.execute')).toEqual([canceled, canceled]);
  });

  it('are aborted when the iteration is left', () => {
    const timeline = running({ tools: { count: { answers: '---r' } }, calls: ['count'], meanwhile: [1, leave] });
    expect(timeline.slice(-2)).toEqual(['0: 1:0 starts', '1: 1:0 is aborted']);
  });

  it('do not start where the iteration was left before its response was durable', () => {
    const timeline: Timeline = [];
    marbles((helpers) => {
      const { clock } = helpers;
      const toolProviders = [timedTools({ count: { answers: '-r' } }, timeline, helpers)];
      const deps = turnDeps({ clock, toolProviders, llmProvider: asking(['count']) });
      const signals: Signal[] = [];
      iterationOf(deps)
        .pipe(take(3))
        .subscribe((signal) => signals.push(signal));
      const commit = signals[2];
      if (commit?.type !== 'commit' || !commit.durable) throw new Error('The response has to wait for its append.');
      commit.durable();
    });
    expect(timeline).toEqual([]);
    expect(endingsOf('tools.execute')).toEqual([]);
  });

  it('do not start one after another where a subscriber leaves at a result', () => {
    let runs = 0;
    const llmProvider = asking(['count', 'count', 'count']);
    const deps = turnDeps({ llmProvider, toolProviders: [plainTools({ count: () => ++runs })] });
    const results: string[] = [];
    iterationOf(deps)
      .pipe(
        journal({ journal: undefined, clock: deps.segment.config.clock, storeDeadlineMs: 1_000 }),
        skip(2),
        map(shown),
        take(2),
      )
      .subscribe((what) => results.push(what));
    expect(results).toEqual(['llm.done, intent 1:0, intent 1:1, intent 1:2', 'result 1:0 ok']);
    expect(runs).toBe(1);
  });
});

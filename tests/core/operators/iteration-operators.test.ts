import { describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { type AgentLoopConfig, AgentLoopError, type LLMChunk, type LLMProvider, type LoopState } from 'millrace';
import { journal, loopIterations } from 'millrace/internals';
import {
  catchIterationError,
  completeIteration,
  type Signal,
  startIterationSpan,
  type TurnDeps,
} from 'millrace/operators';
import { fakeClock } from 'millrace/testing';
import { from, map, type Observable, of, type Subscription, tap } from 'rxjs';
import { plainTools } from '../plain-tools.ts';
import { marbles } from './marbles.ts';
import { canceled, endingOf, recordedSpans, unset } from './recorded-spans.ts';
import { startedState, turnDeps } from './turn-deps.ts';

const recorder = recordedSpans();
const values: Readonly<Record<string, Signal>> = { t: { type: 'text', text: 'Two' } };
const length = new AgentLoopError('LENGTH', 'too long');

/** An iteration's span, as it is seen from behind the operators that are tested. */
function iterationSpan(deps = turnDeps()) {
  const { span } = startIterationSpan(deps, ROOT_CONTEXT)(1);
  return { deps, span, ended: () => !span.isRecording() };
}

describe('startIterationSpan', () => {
  it('S1-14 S1-16 gives the span of an iteration and the context in which it is the parent, below the one given', () => {
    const deps = turnDeps();
    const parent = startIterationSpan(deps, ROOT_CONTEXT)(1);
    const { span, traceContext } = startIterationSpan(deps, parent.traceContext)(2);
    expect(trace.getSpan(traceContext)).toBe(span);
    expect(trace.getSpan(parent.traceContext)).toBe(parent.span);
    for (const each of [span, parent.span]) each.end();
    expect(recorder.tree()).toBe('iteration[1]\n  iteration[2]');
    expect(recorder.spans()[1]?.attributes).toMatchObject({ 'millrace.iteration': 2, 'millrace.task.id': 'task' });
  });

  it('hands the context on as it is where tracing is off', () => {
    const parent = ROOT_CONTEXT.setValue(Symbol('theirs'), 1);
    const { span, traceContext } = startIterationSpan(turnDeps({ enableTracing: false }), parent)(1);
    expect(traceContext).toBe(parent);
    expect(span.isRecording()).toBe(false);
    expect(recorder.started).toBe(0);
  });
});

describe('catchIterationError', () => {
  it('writes an error to the span, which it leaves open, and passes it on; all else passes', () => {
    const { deps, span, ended } = iterationSpan();
    marbles(({ hot, expectObservable, expectSubscriptions }) => {
      const failing$ = hot('-t-#', values, length);
      const left$ = hot('-t-|', values);
      expectObservable(failing$.pipe(catchIterationError(deps, span))).toBe('-t-#', values, length);
      expectSubscriptions(failing$.subscriptions).toBe('^--!');
      expectObservable(left$.pipe(catchIterationError(deps, span)), '--!').toBe('-t', values);
      expectSubscriptions(left$.subscriptions).toBe('^-!');
      expectObservable(hot('-t-|', values).pipe(catchIterationError(deps, span))).toBe('-t-|', values);
    });
    expect(ended()).toBe(false);
    span.end();
    expect(recorder.spans().map(endingOf)).toEqual([
      { status: 'ERROR', errorType: 'LENGTH', exceptions: ['too long'], outcome: undefined },
    ]);
  });
});

describe('completeIteration', () => {
  it.each([
    ['complete', '-t-|', undefined, unset],
    ['error', '-t-#', undefined, unset],
    ['unsubscribe', '-t-t', '--!', unset],
  ])('ends the span on %s, before what is behind hears of it', (_, diagram, leave, ending) => {
    const { deps, span, ended } = iterationSpan();
    const seen: boolean[] = [];
    const note = () => seen.push(ended());
    marbles(({ hot, expectObservable, expectSubscriptions }) => {
      const source$ = hot<Signal>(diagram, values, length);
      const completed$ = source$.pipe(
        completeIteration(deps, span),
        tap({ next: note, complete: note, error: note, unsubscribe: note }),
      );
      expectObservable(completed$, leave).toBe(leave === undefined ? diagram : '-t', values, length);
      expectSubscriptions(source$.subscriptions).toBe(leave === undefined ? '^--!' : '^-!');
    });
    expect(seen).toEqual([false, true]);
    expect(recorder.spans().map(endingOf)).toEqual([ending]);
  });

  it.each([
    ['completes', '-|', undefined],
    ['is left', '--', '-!'],
  ])('marks an iteration of a cancelled turn that %s', (_, diagram, leave) => {
    const { deps, span } = iterationSpan();
    deps.inbox.scope.abort(length);
    marbles(({ hot, expectObservable }) =>
      expectObservable(hot<Signal>(diagram).pipe(completeIteration(deps, span)), leave).toBe(diagram),
    );
    expect(recorder.spans().map(endingOf)).toEqual([canceled]);
  });

  it('leaves the mark of a failure as it is, also of a cancelled turn', () => {
    const { deps, span } = iterationSpan();
    deps.inbox.scope.abort(length);
    marbles(({ cold, expectObservable }) =>
      expectObservable(
        cold<Signal>('#', {}, length).pipe(catchIterationError(deps, span), completeIteration(deps, span)),
      ).toBe('#', {}, length),
    );
    expect(recorder.spans().map(endingOf)).toMatchObject([{ status: 'ERROR', outcome: undefined }]);
  });
});

describe('loopIterations', () => {
  /** A model that asks for the tool `count` until the iteration given, then answers; each answer as `arrive` lets it come. */
  function modelOf(iterations: number, arrive: (answer: LLMChunk) => Observable<LLMChunk>) {
    let calls = 0;
    const answer = (): LLMChunk => {
      const message = { role: 'assistant', content: calls < iterations ? null : 'Done.' } as const;
      const call = { id: `call_${calls}`, type: 'function', function: { name: 'count', arguments: '{}' } } as const;
      return { type: 'done', response: calls < iterations ? { message, toolCalls: [call] } : { message } };
    };
    const model: LLMProvider = {
      call: () => Promise.reject(new Error('The model streams.')),
      stream: () => {
        calls++;
        return arrive(answer());
      },
    };
    return model;
  }

  function loopDeps(config: Partial<AgentLoopConfig>): TurnDeps {
    return turnDeps({ enableTracing: false, maxIterations: 100_000, ...config });
  }

  /** The signals of a loop whose commits are durable at once. */
  function looping(deps: TurnDeps, state: LoopState = startedState()) {
    const { clock } = deps.segment.config;
    return loopIterations(
      deps,
      ROOT_CONTEXT,
    )(state).pipe(journal({ journal: undefined, clock, storeDeadlineMs: 1_000 }));
  }

  /** Runs a loop to its end, and tells whether a timer that was set before it fired meanwhile. */
  function runToEnd(deps: TurnDeps) {
    return new Promise<{ readonly last: LoopState | undefined; readonly timerFired: boolean }>((resolve, reject) => {
      let last: LoopState | undefined;
      let timerFired = false;
      const timer = setTimeout(() => {
        timerFired = true;
      }, 0);
      looping(deps).subscribe({
        next: (signal) => {
          if (signal.type === 'commit') last = signal.after;
        },
        error: reject,
        complete: () => {
          clearTimeout(timer);
          resolve({ last, timerFired });
        },
      });
    });
  }

  const ways: readonly (readonly [string, (answer: LLMChunk) => Observable<LLMChunk>, () => unknown])[] = [
    ['synchronous', (answer) => of(answer), () => 1],
    ['asynchronous', (answer) => from(Promise.resolve(answer)), async () => 1],
  ];

  it.each(ways)(
    'S1-103 runs 20,000 %s iterations flat, and lets the event loop run meanwhile',
    async (_, arrive, count) => {
      const deps = loopDeps({ llmProvider: modelOf(20_000, arrive), toolProviders: [plainTools({ count })] });
      const { last, timerFired } = await runToEnd(deps);
      expect(last).toMatchObject({
        iteration: 20_000,
        toolCalls: 19_999,
        outcome: { state: 'completed', reason: 'stop' },
      });
      expect(timerFired).toBe(true);
    },
  );

  it('runs the iterations of up to a hundred steps without a turn of the event loop', () => {
    const deps = loopDeps({ llmProvider: modelOf(20, of), toolProviders: [plainTools({ count: () => 1 })] });
    const states: (LoopState | undefined)[] = [];
    looping(deps).subscribe((signal) => signal.type === 'commit' && states.push(signal.after));
    expect(states.at(-1)).toMatchObject({ iteration: 20, outcome: { state: 'completed' } });
  });

  it('is quiet where the turn is over', () => {
    const failed = startedState();
    const over = loopDeps({ llmProvider: modelOf(1, of) });
    const ended: LoopState[] = [];
    looping(over, failed).subscribe((signal) => signal.type === 'commit' && ended.push(signal.after));
    marbles(({ expectObservable }) => {
      const end = ended.at(-1);
      if (end === undefined) throw new Error('The loop did not end.');
      expectObservable(loopIterations(over, ROOT_CONTEXT)(end)).toBe('|');
    });
  });

  const asking: LLMChunk = {
    type: 'done',
    response: {
      message: { role: 'assistant', content: null },
      toolCalls: [{ id: 'call', type: 'function', function: { name: 'count', arguments: '{}' } }],
    },
  };
  const answering: LLMChunk = { type: 'done', response: { message: { role: 'assistant', content: 'Two.' } } };
  const chunks: Readonly<Record<string, LLMChunk>> = { x: asking, y: answering, t: { type: 'text', text: 'Two.' } };
  const kindOf = map((signal: Signal) =>
    signal.type === 'commit' ? signal.steps.map(({ record }) => record.type).join(' ') : signal.type,
  );

  it('leaves the model at once where the turn is cancelled, and writes that', () => {
    marbles(({ cold, clock, expectObservable, expectSubscriptions }) => {
      const answer$ = cold('-t---y', chunks);
      const deps = loopDeps({ llmProvider: modelOf(1, () => answer$), clock });
      clock.schedule(3, () => deps.inbox.scope.abort(new AgentLoopError('CANCELED', 'enough')));
      expectObservable(loopIterations(deps, ROOT_CONTEXT)(startedState()).pipe(kindOf)).toBe('st-(c|)', {
        s: 'llm.start',
        t: 'text',
        c: 'turn.canceled',
      });
      expectSubscriptions(answer$.subscriptions).toBe('^--!');
    });
  });

  it('leaves the model where it is left, and writes nothing', () => {
    marbles(({ cold, clock, expectObservable, expectSubscriptions }) => {
      const answer$ = cold('-t---y', chunks);
      const deps = loopDeps({ llmProvider: modelOf(1, () => answer$), clock });
      expectObservable(loopIterations(deps, ROOT_CONTEXT)(startedState()).pipe(kindOf), '---!').toBe('st', {
        s: 'llm.start',
        t: 'text',
      });
      expectSubscriptions(answer$.subscriptions).toBe('^--!');
    });
  });

  it('errors with the error of an iteration', () => {
    marbles(({ cold, clock, expectObservable }) => {
      const deps = loopDeps({ llmProvider: modelOf(1, () => cold('-#', {}, length)), clock });
      expectObservable(loopIterations(deps, ROOT_CONTEXT)(startedState()).pipe(kindOf)).toBe(
        's#',
        { s: 'llm.start' },
        length,
      );
    });
  });

  it('goes round by round: one call of the model, its tools, the next call', () => {
    marbles(({ cold, clock, expectObservable }) => {
      const answers = [cold('-x|', chunks), cold('-----y|', chunks)];
      const deps = loopDeps({
        llmProvider: modelOf(2, () => answers.shift() ?? cold('#')),
        toolProviders: [plainTools({ count: () => 1 })],
        clock,
      });
      expectObservable(looping(deps).pipe(kindOf)).toBe('s(irs)(e|)', {
        s: 'llm.start',
        i: 'llm.done tool.intent',
        r: 'tool.result',
        e: 'llm.done turn.done',
      });
    });
  });

  it('does not go on behind a subscriber who leaves between two iterations', async () => {
    const deps = loopDeps({
      llmProvider: modelOf(20_000, of),
      toolProviders: [plainTools({ count: () => 1 })],
      clock: fakeClock(),
    });
    let iterations = 0;
    let subscription: Subscription | undefined;
    const stopped = new Promise<void>((resolve) => {
      subscription = looping(deps).subscribe((signal) => {
        if (signal.type !== 'commit') return;
        iterations = signal.after.iteration;
        if (iterations < 500) return;
        subscription?.unsubscribe();
        resolve();
      });
    });
    await stopped;
    await new Promise((resolve) => setImmediate(resolve));
    expect(iterations).toBe(500);
  });
});

import { describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT } from '@opentelemetry/api';
import { AgentLoopError } from 'millrace';
import { commitOf, startExecuteSpan } from 'millrace/internals';
import { type Commit, catchTurnError, type Signal, tapAfterTurn } from 'millrace/operators';
import type { TurnRecord } from 'millrace/types';
import { map, tap } from 'rxjs';
import { marbles } from './marbles.ts';
import { endingOf, recordedSpans, unset } from './recorded-spans.ts';
import { recordingLogger } from './recording-logger.ts';
import { startedState, turnDeps } from './turn-deps.ts';

const recorder = recordedSpans();
const stamper = { epoch: 1, now: () => 0 };
const usage = { promptTokens: 12, completionTokens: 3, totalTokens: 15 };

/** The commit of an answer, and of how the turn ended then. */
function commits(end: TurnRecord): readonly [Commit, Commit] {
  const answer = commitOf(stamper, startedState(), [
    { type: 'llm.start', iteration: 1, attempt: 1 },
    {
      type: 'llm.done',
      iteration: 1,
      attempt: 1,
      message: { role: 'assistant', content: 'Two apples.' },
      calls: [],
      finishReason: 'stop',
      usage,
    },
  ]);
  return [answer, commitOf(stamper, answer.after, [end])];
}

const done: TurnRecord = { type: 'turn.done', text: 'Two apples.', reason: 'stop' };

describe('catchTurnError', () => {
  it('passes signals, completion and unsubscription through', () => {
    const [a, b] = commits(done);
    marbles(({ hot, expectObservable, expectSubscriptions }) => {
      const signals = { a, b };
      const completing$ = hot('-a-b|', signals);
      const left$ = hot('-a-b-|', signals);
      expectObservable(completing$.pipe(catchTurnError(turnDeps(), startedState()))).toBe('-a-b|', signals);
      expectSubscriptions(completing$.subscriptions).toBe('^---!');
      expectObservable(left$.pipe(catchTurnError(turnDeps(), startedState())), '--!').toBe('-a', signals);
      expectSubscriptions(left$.subscriptions).toBe('^-!');
    });
  });

  it.each([
    ['an error of ours', new AgentLoopError('LENGTH', 'too long'), 'LENGTH', 'too long', 'length'],
    ['any other error', new RangeError('no'), 'INTERNAL', 'The turn broke on an unexpected error: no', 'internal'],
    ['what is no error', 'a text', 'INTERNAL', 'The turn broke on an unexpected error: a text', 'internal'],
  ])(
    'ends the turn with the record of %s, behind what was committed, and completes',
    (_, thrown, code, message, reason) => {
      const [answer] = commits(done);
      const logger = recordingLogger();
      const failures: Commit[] = [];
      marbles(({ hot, clock, expectObservable, expectSubscriptions }) => {
        const deps = turnDeps({ logger, clock });
        const source$ = hot<Signal>('-a-#', { a: answer }, thrown);
        const seen$ = source$.pipe(
          catchTurnError(deps, startedState()),
          tap((signal) => signal !== answer && signal.type === 'commit' && failures.push(signal)),
          map((signal) => signal === answer),
        );
        expectObservable(seen$).toBe('-a-(f|)', { a: true, f: false });
        expectSubscriptions(source$.subscriptions).toBe('^--!');
      });
      expect(failures).toEqual([expect.objectContaining({ barrier: true, cause: thrown })]);
      expect(failures[0]?.steps.map(({ record }) => record)).toEqual([
        { type: 'turn.failed', code, message, reason, seq: answer.after.seq + 1, epoch: 1, at: 3 },
      ]);
      expect(failures[0]?.after).toMatchObject({ outcome: { state: 'failed', reason, error: { code, message } } });
      expect(logger.lines).toEqual([['error', 'turn failed', { taskId: 'task', agentId: 'agent', code }]]);
    },
  );

  it('writes the failure behind the state it was given where nothing was committed', () => {
    const failures: Signal[] = [];
    marbles(({ cold }) =>
      cold<Signal>('#')
        .pipe(catchTurnError(turnDeps(), startedState()))
        .subscribe((signal) => failures.push(signal)),
    );
    expect(failures).toMatchObject([{ type: 'commit', after: { seq: 2 } }]);
  });
});

describe('tapAfterTurn', () => {
  /** What a run of signals writes to `agent.execute`, and whether its span had ended when what is behind heard of the end. */
  function tapping(diagram: string, ends: readonly [Commit, Commit], error?: unknown, leave?: string) {
    const deps = turnDeps({ captureContent: true });
    const { span } = startExecuteSpan(deps.segment.tracing, { maxIterations: 10, resumed: false }, ROOT_CONTEXT);
    const endedBefore: boolean[] = [];
    const note = () => endedBefore.push(!span.isRecording());
    marbles(({ hot, expectObservable, expectSubscriptions }) => {
      const signals = { a: ends[0], b: ends[1] };
      const source$ = hot<Signal>(diagram, signals, error);
      const tapped$ = source$.pipe(
        tapAfterTurn(deps, span),
        tap({ next: note, error: note, complete: note, unsubscribe: note }),
      );
      expectObservable(tapped$, leave).toBe(
        leave === undefined ? diagram : diagram.slice(0, leave.length),
        signals,
        error,
      );
      expectSubscriptions(source$.subscriptions).toBe(`^${'-'.repeat((leave ?? diagram).length - 2)}!`);
    });
    const [recorded] = recorder.spans();
    if (recorded === undefined) throw new Error('The span has not ended.');
    return { endedBefore, ending: endingOf(recorded), attributes: recorded.attributes };
  }

  const totals = {
    'millrace.iterations': 1,
    'millrace.tool_calls': 0,
    'millrace.usage.input_tokens': 12,
    'millrace.usage.output_tokens': 3,
    'millrace.usage.total_tokens': 15,
  };

  it('S1-85 writes outcome, reason, sums and, where content is captured, the output of a turn that completed', () => {
    const { endedBefore, ending, attributes } = tapping('-a-b|', commits(done));
    expect(endedBefore).toEqual([false, false, true]);
    expect(ending).toEqual({ ...unset, outcome: 'completed' });
    expect(attributes).toMatchObject({ ...totals, 'millrace.stop_reason': 'stop', 'output.value': 'Two apples.' });
  });

  it('marks a turn that failed', () => {
    const failure = { type: 'turn.failed', code: 'LENGTH', message: 'too long', reason: 'length' } as const;
    const { ending, attributes } = tapping('-a-b|', commits(failure));
    expect(ending).toEqual({ status: 'ERROR', errorType: 'LENGTH', exceptions: ['too long'], outcome: 'failed' });
    expect(attributes).toMatchObject({ ...totals, 'millrace.stop_reason': 'length' });
    expect(attributes).not.toHaveProperty('output.value');
  });

  it('marks a turn that was cancelled, which is no error', () => {
    const { ending, attributes } = tapping('-a-b|', commits({ type: 'turn.canceled', reason: 'enough' }));
    expect(ending).toEqual({ ...unset, outcome: 'canceled' });
    expect(attributes).toMatchObject({ ...totals, 'millrace.stop_reason': 'enough' });
  });

  it('marks a turn that is lost to this process', () => {
    const { endedBefore, ending } = tapping('-a-#', commits(done), new AgentLoopError('FENCED', 'somebody else’s'));
    expect(endedBefore).toEqual([false, true]);
    expect(ending).toEqual({
      status: 'ERROR',
      errorType: 'FENCED',
      exceptions: ['somebody else’s'],
      outcome: undefined,
    });
  });

  it('ends the span where the run is left', () => {
    const { endedBefore, ending } = tapping('-a-b-|', commits(done), undefined, '--!');
    expect(endedBefore).toEqual([false, true]);
    expect(ending).toEqual(unset);
  });
});

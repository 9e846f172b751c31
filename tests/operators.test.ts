import { expect, it } from '@jest/globals';
import { AgentLoop, type LLMChunk } from 'millrace';
import {
  beginLLMCall,
  type Commit,
  catchIterationError,
  catchLLMError,
  catchTurnError,
  completeIteration,
  executeTools,
  loopIterations,
  mapLLMResponseToState,
  type OperatorTurn,
  operatorTurn,
  prepareLLMCall,
  projectEvents,
  type Signal,
  startIterationSpan,
  tapAfterTurn,
  tapLLMResponse,
} from 'millrace/operators';
import { concat, defer, finalize, lastValueFrom, Observable, of, startWith, toArray } from 'rxjs';
import { question } from './core/dead-turn.ts';
import { plainTools } from './core/plain-tools.ts';
import { turnBench } from './core/turn-bench.ts';
import { ofKind, textsOf } from './core/watch-events.ts';

const bench = turnBench();

/** One iteration, composed of the operators that the loop has, by their names. */
function iteration({ deps, traceContext }: OperatorTurn, before: Commit): Observable<Signal> {
  return defer(() => {
    const begun = beginLLMCall(deps, before.after);
    const traced = startIterationSpan(deps, traceContext)(begun.after.iteration);
    const call = prepareLLMCall(deps, traced.traceContext)(begun.after);
    const chunks$ = deps.provider.stream?.(call.params) ?? new Observable<LLMChunk>();
    return chunks$.pipe(
      tapLLMResponse(deps, call),
      catchLLMError(deps, call),
      mapLLMResponseToState(deps, begun.after),
      withTools(deps, traced.traceContext),
      catchIterationError(deps, traced.span),
      completeIteration(deps, traced.span),
      startWith<Signal>(begun),
    );
  });
}

/** What the model asked for runs before the iteration is over. */
function withTools(deps: OperatorTurn['deps'], traceContext: OperatorTurn['traceContext']) {
  return (signals$: Observable<Signal>) =>
    new Observable<Signal>((to) => {
      const last: Commit[] = [];
      return signals$.subscribe({
        next(signal) {
          if (signal.type === 'commit') last.push(signal);
          to.next(signal);
        },
        error: (error: unknown) => to.error(error),
        complete() {
          const state = last.at(-1)?.after;
          if (state?.phase === 'tools') to.add(executeTools(deps, traceContext)(state).subscribe(to));
          else to.complete();
        },
      });
    });
}

it('U-03 gives the operators of a turn under their names, to be composed by hand with pipe', async () => {
  const steps = [{ text: 'I count.', toolCalls: [{ name: 'count' }] }, { text: ['Tw', 'o.'] }];
  const model = bench.model(steps);
  const toolProviders = [plainTools({ count: () => 2 })];
  const turn = await operatorTurn(
    { agentId: 'tester', llmProvider: model, toolProviders, clock: bench.clock },
    question,
  );
  let last = turn.started;
  const iterate = (): Observable<Signal> =>
    defer(() =>
      concat(
        iteration(turn, last),
        defer(() => (last.after.outcome ? of() : iterate())),
      ),
    );
  const signals$ = concat(of(turn.started), iterate()).pipe(
    (source) =>
      new Observable<Signal>((to) =>
        source.subscribe({
          next(signal) {
            if (signal.type === 'commit') last = signal;
            to.next(signal);
          },
          error: (error: unknown) => to.error(error),
          complete: () => to.complete(),
        }),
      ),
    catchTurnError(turn.deps, turn.state),
    tapAfterTurn(turn.deps, turn.span),
    finalize(() => turn.span.end()),
  );
  const events = await lastValueFrom(
    signals$.pipe(projectEvents({ checkpoints: false, now: () => bench.clock.now() }), toArray()),
  );
  expect(textsOf(events)).toEqual({ 'answer-1': 'I count.', 'answer-2': 'Two.' });
  expect(ofKind(events, 'internal:tool-complete')).toMatchObject([{ toolName: 'count', content: '2' }]);
  expect(ofKind(events, 'status-update').at(-1)).toMatchObject({ final: true, status: { state: 'completed' } });
  expect(model.calls[1]?.messages.at(-1)).toMatchObject({ role: 'tool', content: '2' });
  expect(bench.spans.spans().map(({ name }) => name)).toEqual([
    'agent.execute',
    'iteration[1]',
    'llm.call',
    'tools.execute',
    'tool[count]',
    'iteration[2]',
    'llm.call',
  ]);
});

it('K-09 records the tools and settings of a call that begins as the loop does', async () => {
  const { clock, store } = bench;
  const settings = { temperature: 0.5, toolProviders: [plainTools({ count: () => 2 })], clock };
  const loop = new AgentLoop({
    ...{ agentId: 'tester', taskStateStore: store, ...settings },
    llmProvider: bench.model([{ text: 'Two.' }]),
  });
  await loop.startTurn(question, { taskId: 'whole' }).result();
  const given = { agentId: 'tester', llmProvider: bench.model([]), ...settings };
  const { deps, state, span } = await operatorTurn(given, question);
  const [start] = beginLLMCall(deps, state).steps;
  const { seq: _, epoch: __, at: ___, ...recorded } = store.read('whole')[1] ?? {};
  expect(recorded).toMatchObject({ tools: [{ name: 'count' }], options: { temperature: 0.5 } });
  expect(start?.record).toMatchObject(recorded);
  span.end();
});

it('U-03 U-18 runs calls that wait for a place, and calls whose check takes its time', async () => {
  const calls = Array.from({ length: 7 }, () => ({ name: 'count' }));
  const llmProvider = bench.model([{ toolCalls: calls }, { text: 'Seven.' }]);
  let runs = 0;
  const turn = await operatorTurn(
    {
      agentId: 'tester',
      llmProvider,
      toolProviders: [plainTools({ count: () => ++runs })],
      argumentChecks: () => async (value) => ({ ok: true, value }),
      clock: bench.clock,
    },
    question,
  );
  const { deps, state, span, traceContext } = turn;
  const signals$ = concat(of(turn.started), loopIterations(deps, traceContext)(state)).pipe(
    catchTurnError(deps, state),
    tapAfterTurn(deps, span),
    finalize(() => span.end()),
  );
  const last = await lastValueFrom(signals$);
  expect(last).toMatchObject({ type: 'commit', after: { outcome: { state: 'completed' } } });
  expect(runs).toBe(7);
});

it('U-03 turns an error of the model into the failure of the turn', async () => {
  const model = bench.model([{ error: new Error('down') }]);
  const turn = await operatorTurn({ agentId: 'tester', llmProvider: model, clock: bench.clock }, question);
  const signals$ = iteration(turn, turn.started).pipe(
    catchTurnError(turn.deps, turn.state),
    tapAfterTurn(turn.deps, turn.span),
    finalize(() => turn.span.end()),
  );
  const last = await lastValueFrom(signals$);
  expect(last).toMatchObject({ type: 'commit', after: { outcome: { error: { code: 'PROVIDER_FAILED' } } } });
});

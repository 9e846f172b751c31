import { describe, expect, it } from '@jest/globals';
import { type AgentEvent, AgentLoop, type Extension, type LLMCallParams, type LLMProvider } from 'millrace';
import {
  beginLLMCall,
  type Commit,
  callModel,
  catchIterationError,
  catchLLMError,
  catchTurnError,
  completeIteration,
  loopIterations,
  mapLLMResponseToState,
  type OperatorTurn,
  operatorTurn,
  prepareLLMCall,
  projectEvents,
  requestLLM,
  type Signal,
  startIterationSpan,
  tapAfterTurn,
  tapLLMResponse,
  withTools,
} from 'millrace/operators';
import type { ScriptedLLMStep } from 'millrace/testing';
import {
  concat,
  defer,
  EMPTY,
  finalize,
  lastValueFrom,
  NEVER,
  type Observable,
  of,
  startWith,
  tap,
  toArray,
} from 'rxjs';
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
    return requestLLM(deps, call).pipe(
      catchLLMError(deps, call),
      tapLLMResponse(deps, call),
      mapLLMResponseToState(deps, begun.after, traced.traceContext),
      withTools(deps, traced.traceContext),
      catchIterationError(deps, traced.span),
      completeIteration(deps, traced.span),
      startWith<Signal>(begun),
    );
  });
}

/** As `iteration`, with the model call as one operator, which asks the hooks. */
function iterationWithHooks({ deps, traceContext }: OperatorTurn, before: Commit): Observable<Signal> {
  return defer(() => {
    const traced = startIterationSpan(deps, traceContext)(before.after.iteration + 1);
    return callModel(
      deps,
      traced.traceContext,
    )(before.after).pipe(
      withTools(deps, traced.traceContext),
      catchIterationError(deps, traced.span),
      completeIteration(deps, traced.span),
    );
  });
}

/** The events of a turn that is composed of iterations. */
function eventsOf(turn: OperatorTurn, iterationOf: typeof iteration): Promise<AgentEvent[]> {
  let last = turn.started;
  const iterate = (): Observable<Signal> =>
    concat(
      iterationOf(turn, last),
      defer(() => (last.after.outcome ? EMPTY : iterate())),
    );
  const signals$ = concat(of(turn.started), defer(iterate)).pipe(
    tap((signal) => {
      if (signal.type === 'commit') last = signal;
    }),
    catchTurnError(turn.deps, turn.state),
    tapAfterTurn(turn.deps, turn.span),
    finalize(() => turn.span.end()),
  );
  const now = () => bench.clock.now();
  return lastValueFrom(signals$.pipe(projectEvents({ checkpoints: false, now }), toArray()));
}

it('U-03 gives the operators of a turn under their names, to be composed by hand with pipe', async () => {
  const steps = [{ text: 'I count.', toolCalls: [{ name: 'count' }] }, { text: ['Tw', 'o.'] }];
  const model = bench.model(steps);
  const toolProviders = [plainTools({ count: () => 2 })];
  const turn = await operatorTurn(
    { agentId: 'tester', llmProvider: model, toolProviders, clock: bench.clock },
    question,
  );
  const events = await eventsOf(turn, iteration);
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

describe('K-01 a turn composed by hand', () => {
  const usage = { promptTokens: 12, completionTokens: 3, totalTokens: 15 };
  const count = { text: 'I count.', toolCalls: [{ name: 'count' }], usage };
  const both = { ...count, toolCalls: [{ name: 'count' }, { name: 'unknown' }] };
  const briefly: Extension = { name: 'briefly', beforeLLMCall: () => ({ params: { maxTokens: 5 } }) };
  const louder: Extension = { name: 'louder', afterLLMCall: (response) => ({ response: { ...response, usage } }) };

  /** The model, with a note on each call. */
  function noting(model: LLMProvider): LLMProvider {
    const stream: LLMProvider['stream'] = (params) => {
      params.note?.({ kind: 'warning', message: 'It takes no temperature.' });
      return model.stream?.(params) ?? EMPTY;
    };
    return { ...model, stream };
  }

  const spansOf = () => {
    const spans = bench.spans.spans().map(({ name, status, attributes }) => ({ name, status, attributes }));
    const seen = { tree: bench.spans.tree(), spans };
    bench.spans.clear();
    return seen;
  };
  const sent = ({ messages, tools, maxTokens }: LLMCallParams) => ({ messages, tools, maxTokens });

  it.each<[string, readonly ScriptedLLMStep[], readonly Extension[]]>([
    ['answers', [{ text: ['Tw', 'o.'], usage }], []],
    ['runs tools', [count, both, { text: 'Two.' }], []],
    ['reaches a token limit', [{ text: 'Tw', finishReason: 'length' }], []],
    ['fails', [count, { error: new TypeError('no') }], []],
    ['has hooks', [count, { text: 'Two.' }], [briefly, louder]],
  ])('%s as with AgentLoop: the same events, spans and requests', async (_, steps, extensions) => {
    const toolProviders = [plainTools({ count: () => 2 })];
    const given = { agentId: 'tester', toolProviders, clock: bench.clock, extensions };
    const ids = { taskId: 't', contextId: 'c' };
    const model = bench.model(steps);
    const turn = new AgentLoop({ ...given, llmProvider: noting(model) }).startTurn(question, ids);
    const events: AgentEvent[] = [];
    turn.subscribe((event) => events.push(event));
    await turn.settled;
    const expected = { events: events.filter(isOfTurn), spans: spansOf(), requests: model.calls.map(sent) };
    for (const way of extensions.length > 0 ? [iterationWithHooks] : [iteration, iterationWithHooks]) {
      const own = bench.model(steps);
      const composed = await operatorTurn({ ...given, llmProvider: noting(own) }, question, ids);
      const seen = (await eventsOf(composed, way)).filter(isOfTurn);
      expect({ events: seen, spans: spansOf(), requests: own.calls.map(sent) }).toEqual(expected);
    }
  });

  it('fails with a silent model as AgentLoop does', async () => {
    const llmProvider = { call: () => Promise.reject(new Error('streams')), stream: () => NEVER };
    const given = { agentId: 'tester', llmProvider, clock: bench.clock, modelSilenceMs: 800 };
    const composed = await operatorTurn(given, question);
    const events = eventsOf(composed, iteration);
    await bench.clock.advance(900);
    expect(ofKind(await events, 'status-update').at(-1)).toMatchObject({
      status: { state: 'failed' },
      error: { code: 'PROVIDER_TIMEOUT' },
    });
  });
});

/** A checkpoint tells of a store. */
function isOfTurn({ kind }: AgentEvent): boolean {
  return kind !== 'internal:checkpoint';
}

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

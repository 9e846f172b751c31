import { describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT, SpanKind, trace } from '@opentelemetry/api';
import { AgentLoopError, type LLMChunk, type LLMResponse, type LoopState, type Message, type ToolCall } from 'millrace';
import { commitOf, type LlmStart, messageOf } from 'millrace/internals';
import {
  type CallSignal,
  type Commit,
  catchLLMError,
  mapLLMResponseToState,
  prepareLLMCall,
  type TurnDeps,
  tapLLMResponse,
} from 'millrace/operators';
import type { TurnRecord } from 'millrace/types';
import { firstValueFrom, lastValueFrom, map, type OperatorFunction, Subject, tap, toArray } from 'rxjs';
import { plainTools } from '../plain-tools.ts';
import { marbles } from './marbles.ts';
import { canceled, endingOf, recordedSpans, unset } from './recorded-spans.ts';
import { recordingLogger } from './recording-logger.ts';
import { startedState, turnDeps } from './turn-deps.ts';

const recorder = recordedSpans();
const start: LlmStart = { type: 'llm.start', iteration: 1, attempt: 1 };
const usage = { promptTokens: 12, completionTokens: 3, totalTokens: 15 };
const response: LLMResponse = { message: { role: 'assistant', content: 'Two apples.' }, finishReason: 'stop', usage };
const broken = new AgentLoopError('PROVIDER_SERVER', 'the model answered 500');
const values = {
  t: { type: 'text', text: 'Two' },
  r: { type: 'reasoning', text: 'hm' },
  d: { type: 'done', response },
} satisfies Record<string, LLMChunk>;

/** The state in which the model is being called. */
function callingState(messages?: readonly Message[], { summary = false } = {}): LoopState {
  const record: TurnRecord = summary ? { ...start, summary } : { ...start };
  return commitOf({ epoch: 1, now: () => 0 }, startedState(messages), [record]).after;
}

function prepared(deps: TurnDeps, state = callingState()) {
  return prepareLLMCall(deps, ROOT_CONTEXT)(state);
}

/** Draws `operator` over a source, and tells at each thing heard behind it whether `span` had ended by then. */
function drawn(
  operator: OperatorFunction<CallSignal, CallSignal>,
  { source, out = source, leave, isOver }: { source: string; out?: string; leave?: string; isOver: () => boolean },
): readonly boolean[] {
  const seen: boolean[] = [];
  const note = () => seen.push(isOver());
  marbles(({ hot, expectObservable, expectSubscriptions }) => {
    const source$ = hot<LLMChunk>(source, values, broken);
    const out$ = source$.pipe(operator, tap({ next: note, complete: note, error: note, unsubscribe: note }));
    expectObservable(out$, leave).toBe(out, values, broken);
    const end = (leave ?? source).length - 1;
    expectSubscriptions(source$.subscriptions).toBe(`^${'-'.repeat(end - 1)}!`);
  });
  return seen;
}

describe('prepareLLMCall', () => {
  it('S1-14 S1-16 gives the request, the span of the call and the context in which it is the parent', () => {
    const deps = turnDeps({ llmProvider: { call: () => Promise.resolve(response), info: { model: 'gpt-test' } } });
    const parent = prepared(deps);
    const call = prepareLLMCall(deps, parent.traceContext)(callingState());
    expect(trace.getSpan(call.traceContext)).toBe(call.span);
    expect(call.params.traceContext).toBe(call.traceContext);
    for (const { span } of [call, parent]) span.end();
    expect(recorder.tree()).toBe('llm.call\n  llm.call');
    expect(recorder.spans()[1]).toMatchObject({
      kind: SpanKind.CLIENT,
      attributes: { 'gen_ai.request.model': 'gpt-test', 'millrace.iteration': 1 },
    });
  });

  it('injects the system prompt, and sends what is configured and nothing else', () => {
    const tools = plainTools({ count: () => 2 });
    const settings = { systemPrompt: 'Be brief.', temperature: 0.5, maxTokens: 99, toolChoice: 'required' } as const;
    const full = prepared(turnDeps({ toolProviders: [tools], ...settings }));
    const bare = prepared(turnDeps());
    for (const { span } of [full, bare]) span.end();
    const [question] = callingState().messages;
    const { signal: _, traceContext: __, ...sent } = full.params;
    expect(sent).toEqual({
      messages: [{ role: 'system', content: 'Be brief.' }, question],
      metadata: {},
      tools: [
        { type: 'function', function: { name: 'count', description: 'Does count.', parameters: { type: 'object' } } },
      ],
      toolChoice: 'required',
      temperature: 0.5,
      maxTokens: 99,
    });
    expect(Object.keys(bare.params).toSorted()).toEqual(['messages', 'metadata', 'signal', 'traceContext']);
  });

  it.each([
    ['the closing summary', turnDeps, { summary: true }],
    [
      'a provider that cannot take them',
      (options: object) =>
        turnDeps({
          ...options,
          llmProvider: { call: () => Promise.resolve(response), capabilities: { tools: false } },
        }),
      {},
    ],
  ])('sends no tools with %s', (_, depsWith, of) => {
    const deps = depsWith({ toolProviders: [plainTools({ count: () => 2 })], toolChoice: 'auto' });
    const { params, span } = prepared(deps, callingState(undefined, of));
    span.end();
    expect(params).not.toHaveProperty('tools');
    expect(params).not.toHaveProperty('toolChoice');
  });

  it('gives a signal that is aborted with the turn', () => {
    const deps = turnDeps();
    const { params, span } = prepared(deps);
    span.end();
    expect(params.signal?.aborted).toBe(false);
    deps.inbox.scope.abort(broken);
    expect(params.signal).toMatchObject({ aborted: true, reason: broken });
  });
});

describe('tapLLMResponse', () => {
  it('writes the response to span and log, and ends the span before what is behind hears of it', () => {
    const logger = recordingLogger();
    marbles(({ clock, hot, expectObservable, expectSubscriptions }) => {
      const deps = turnDeps({ logger, clock });
      const call = prepared(deps);
      const source$ = hot<LLMChunk>('--r-td|', values);
      const seen: boolean[] = [];
      const tapped$ = source$.pipe(
        tapLLMResponse(deps, call),
        tap(() => seen.push(call.span.isRecording())),
      );
      expectObservable(tapped$).toBe('--r-td|', values);
      expectSubscriptions(source$.subscriptions).toBe('^-----!');
      return seen;
    });
    const [span] = recorder.spans();
    expect(span && endingOf(span)).toEqual(unset);
    expect(span?.attributes).toMatchObject({
      'gen_ai.response.finish_reasons': ['stop'],
      'gen_ai.response.time_to_first_chunk': 0.002,
      'gen_ai.usage.input_tokens': 12,
      'gen_ai.usage.output_tokens': 3,
    });
    expect(logger.lines).toEqual([
      ['debug', 'model call done', { taskId: 'task', durationMs: 5, finishReason: 'stop', totalTokens: 15 }],
    ]);
  });

  it.each([
    ['the response', { source: '-t-d|' }, [false, true, true], unset],
    ['an error', { source: '-t-#' }, [false, true], unset],
    ['being left', { source: '-t-d|', out: '-t', leave: '--!' }, [false, true], canceled],
  ])('ends the span with %s, before what is behind hears of it', (_, diagram, seen, ending) => {
    const deps = turnDeps();
    const call = prepared(deps);
    const { signal } = call.params;
    const isOver = () => !call.span.isRecording();
    expect(drawn(tapLLMResponse(deps, call), { ...diagram, isOver })).toEqual(seen);
    expect(recorder.spans().map(endingOf)).toEqual([ending]);
    expect(signal?.aborted).toBe(ending === canceled);
  });
});

describe('catchLLMError', () => {
  it('passes all but errors through', () => {
    const deps = turnDeps();
    const call = prepared(deps);
    const isOver = () => !call.span.isRecording();
    drawn(catchLLMError(deps, call), { source: '-t-d|', isOver });
    drawn(catchLLMError(deps, call), { source: '-t-d|', out: '-t', leave: '--!', isOver });
    call.span.end();
    expect(recorder.spans().map(endingOf)).toEqual([unset]);
  });

  it.each([
    ['an error of ours as it is', broken, broken],
    [
      'any other as PROVIDER_FAILED',
      new TypeError('no'),
      { code: 'PROVIDER_FAILED', message: 'The model provider failed: no' },
    ],
  ])('S1-89 writes an error to span and log, and passes on %s', (_, thrown, passed) => {
    const logger = recordingLogger();
    const deps = turnDeps({ logger });
    const call = prepared(deps);
    const errors: unknown[] = [];
    marbles(({ hot, expectObservable, expectSubscriptions }) => {
      const source$ = hot<LLMChunk>('-t-#', values, thrown);
      const caught$ = source$.pipe(catchLLMError(deps, call), tap({ error: (error) => errors.push(error) }));
      expectObservable(caught$).toBe('-t-#', values, expect.objectContaining(passed));
      expectSubscriptions(source$.subscriptions).toBe('^--!');
    });
    call.span.end();
    const { code, message } = passed;
    expect(errors).toEqual([expect.objectContaining({ code, message })]);
    expect(recorder.spans().map(endingOf)).toEqual([
      { status: 'ERROR', errorType: code, exceptions: [messageOf(thrown)], outcome: undefined },
    ]);
    const error = expect.objectContaining({ message: messageOf(thrown) });
    expect(logger.lines).toEqual([['warn', 'model call failed', { taskId: 'task', agentId: 'agent', code, error }]]);
    if (thrown !== passed) expect(errors).toMatchObject([{ cause: thrown, taskId: 'task' }]);
  });

  it('drops what follows the answer', () => {
    const logger = recordingLogger();
    const deps = turnDeps({ logger });
    const call = prepared(deps);
    marbles(({ hot, expectObservable, expectSubscriptions }) => {
      const source$ = hot<LLMChunk>('-t-d-t-d-#', values, broken);
      expectObservable(source$.pipe(catchLLMError(deps, call))).toBe('-t-d-----|', values);
      expectSubscriptions(source$.subscriptions).toBe('^--------!');
    });
    call.span.end();
    expect(recorder.spans().map(endingOf)).toEqual([unset]);
    expect(logger.lines).toEqual([]);
  });

  it.each([
    ['completes without a response', '-t|', '"done"'],
    ['answers without a message', '-tx', 'whose message is not'],
  ])('counts it as a failure where the provider %s', (_, source, words) => {
    const deps = turnDeps();
    const call = prepared(deps);
    marbles(({ hot, expectObservable, expectSubscriptions }) => {
      const empty: LLMChunk = JSON.parse('{"type":"done"}');
      const source$ = hot<LLMChunk>(source, { ...values, x: empty });
      const error = expect.objectContaining({ code: 'PROVIDER_PROTOCOL', message: expect.stringContaining(words) });
      expectObservable(source$.pipe(catchLLMError(deps, call))).toBe('-t#', values, error);
      expectSubscriptions(source$.subscriptions).toBe('^-!');
    });
    call.span.end();
    expect(recorder.spans().map(endingOf)).toMatchObject([{ status: 'ERROR', errorType: 'PROVIDER_PROTOCOL' }]);
  });
});

describe('mapLLMResponseToState', () => {
  const call = (id: string, name = 'count', text = '{}'): ToolCall => ({
    id,
    type: 'function',
    function: { name, arguments: text },
  });

  /** The records that a response comes to. */
  function recordsOf(answer: LLMResponse, deps = turnDeps(), state = callingState()): readonly TurnRecord[] {
    const commits: Commit[] = [];
    marbles(({ cold }) =>
      cold<LLMChunk>('d', { d: { type: 'done', response: answer } })
        .pipe(mapLLMResponseToState(deps, state))
        .subscribe((signal) => signal.type === 'commit' && commits.push(signal)),
    );
    expect(commits).toHaveLength(1);
    expect(commits[0]?.barrier).toBe(true);
    return commits[0]?.steps.map(({ record }) => record) ?? [];
  }

  const asking = (toolCalls: readonly ToolCall[], rest: Partial<LLMResponse> = {}): LLMResponse => ({
    message: { role: 'assistant', content: null },
    toolCalls,
    ...rest,
  });

  it('passes chunks on, and completes with the commit of the response, whatever the source does then', () => {
    marbles(({ hot, expectObservable, expectSubscriptions }) => {
      const source$ = hot<LLMChunk>('-tr-d---t', values);
      const mapped$ = source$.pipe(
        mapLLMResponseToState(turnDeps(), callingState()),
        map((signal) => (signal.type === 'commit' ? 'commit' : signal)),
      );
      expectObservable(mapped$).toBe('-tr-(d|)', { ...values, d: 'commit' });
      expectSubscriptions(source$.subscriptions).toBe('^---!');
    });
  });

  it.each(['completes', 'fails'])(
    'drops what follows the answer while afterLLMCall is asked: the source %s',
    async (how) => {
      const asked$ = new Subject<undefined>();
      const extensions = [{ name: 'slow', afterLLMCall: () => firstValueFrom(asked$) }];
      const source$ = new Subject<LLMChunk>();
      const types$ = source$.pipe(
        mapLLMResponseToState(turnDeps({ extensions }), callingState()),
        map(({ type }) => type),
      );
      const types = lastValueFrom(types$.pipe(toArray()));
      for (const chunk of [values.t, values.d, values.t, values.d]) source$.next(chunk);
      if (how === 'fails') source$.error(broken);
      else source$.complete();
      asked$.next(undefined);
      expect(await types).toEqual(['text', 'commit']);
    },
  );

  it('passes errors on, and leaves the source with who leaves it', () => {
    marbles(({ hot, expectObservable, expectSubscriptions }) => {
      const failing$ = hot<LLMChunk>('-t-#', values, broken);
      const left$ = hot<LLMChunk>('-t-d', values);
      expectObservable(failing$.pipe(mapLLMResponseToState(turnDeps(), callingState()))).toBe('-t-#', values, broken);
      expectSubscriptions(failing$.subscriptions).toBe('^--!');
      expectObservable(left$.pipe(mapLLMResponseToState(turnDeps(), callingState())), '--!').toBe('-t', values);
      expectSubscriptions(left$.subscriptions).toBe('^-!');
    });
  });

  it('S1-14 turns an answer into llm.done and the end of the turn', () => {
    expect(recordsOf(response)).toMatchObject([
      { type: 'llm.done', iteration: 1, attempt: 1, message: response.message, calls: [], finishReason: 'stop', usage },
      { type: 'turn.done', text: 'Two apples.', reason: 'stop' },
    ]);
  });

  it('leaves the turn open where a message waits to enter the history', () => {
    const deps = turnDeps();
    deps.inbox.steer({ role: 'user', content: 'And pears?' });
    expect(recordsOf(response, deps).map(({ type }) => type)).toEqual(['llm.done']);
  });

  it('turns calls into llm.done and the intents of those that start first', () => {
    const deps = turnDeps({ toolProviders: [plainTools({ count: () => 2 })], toolConcurrency: 2 });
    const calls = [call('a', 'count', '{"of":"apples"}'), call('b'), call('c')];
    expect(recordsOf(asking(calls), deps)).toMatchObject([
      {
        type: 'llm.done',
        message: { role: 'assistant', content: null, toolCalls: calls },
        calls: [{ callId: '1:0' }, { callId: '1:1' }, { callId: '1:2' }],
        finishReason: 'tool_calls',
      },
      { type: 'tool.intent', callId: '1:0', attempt: 1, arguments: { of: 'apples' } },
      { type: 'tool.intent', callId: '1:1', attempt: 1, arguments: {} },
    ]);
  });

  it('S1-46 gives calls ids of ours where the model’s are missing, empty or repeated', () => {
    const missing: ToolCall = JSON.parse('{"type":"function","function":{"name":"count","arguments":"{}"}}');
    const deps = turnDeps({ toolProviders: [plainTools({ count: () => 2 })] });
    const [done] = recordsOf(asking([call('a'), missing, call(''), call('a', 'sum')]), deps);
    const ids = ['a', '1:1', '1:2', '1:3'];
    expect(done).toMatchObject({
      calls: ids.map((id, index) => ({ callId: `1:${index}`, call: { id } })),
      message: { toolCalls: ids.map((id) => ({ id })) },
    });
  });

  it('S1-46 refuses a call without a name, of an unknown tool, or with arguments that are not JSON', () => {
    const nameless: ToolCall = JSON.parse('{"id":"b","type":"function","function":{"arguments":"{}"}}');
    const deps = turnDeps({ toolProviders: [plainTools({ count: () => 2 })] });
    const [, ...refusals] = recordsOf(asking([call('a', 'sum'), nameless, call('c', 'count', '{of')]), deps);
    const refused = (callId: string, code: string, text: string) => ({
      type: 'tool.result',
      callId,
      success: false,
      content: expect.stringMatching(text),
      error: { code },
    });
    expect(refusals).toMatchObject([
      refused('1:0', 'TOOL_NOT_FOUND', '^Tool error: tool "sum" is not known; known tools: count$'),
      refused('1:1', 'TOOL_NOT_FOUND', '^Tool error: the call names no tool; known tools: count$'),
      { ...refused('1:2', 'TOOL_ARGUMENTS', 'the arguments of "count" are not JSON'), arguments: { _raw: '{of' } },
    ]);
  });

  it('takes arguments that were handed over parsed, and calls that stand in the message', () => {
    const parsed: ToolCall = JSON.parse(
      '{"id":"a","type":"function","function":{"name":"count","arguments":{"of":"apples"}}}',
    );
    const deps = turnDeps({ toolProviders: [plainTools({ count: () => 2 })] });
    const message = { role: 'assistant', content: null, toolCalls: [parsed] } as const;
    expect(recordsOf({ message }, deps)).toMatchObject([
      { calls: [{ call: { function: { arguments: '{"of":"apples"}' } } }] },
      { type: 'tool.intent', arguments: { of: 'apples' } },
    ]);
  });

  it('never runs a call that was cut short', () => {
    const cut = asking([call('a', 'count', '{"of":')], { finishReason: 'length' });
    const [done, end] = recordsOf(cut, turnDeps({ toolProviders: [plainTools({ count: () => 2 })] }));
    expect(done).toMatchObject({ type: 'llm.done', calls: [], finishReason: 'length' });
    expect(done).not.toHaveProperty('message.toolCalls');
    expect(end).toMatchObject({ type: 'turn.failed', code: 'LENGTH', reason: 'length' });
  });
});

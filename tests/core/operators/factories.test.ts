import { describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { AgentLoop, commitOf } from 'millrace/internals';
import {
  catchIterationError,
  catchLLMError,
  catchTurnError,
  completeIteration,
  mapLLMResponseToState,
  prepareLLMCall,
  startIterationSpan,
  tapAfterTurn,
  tapLLMResponse,
} from 'millrace/operators';
import { type ScriptedLLM, scriptedLLM } from 'millrace/testing';
import { EMPTY, isObservable } from 'rxjs';
import { endingOf, recordedSpans } from './recorded-spans.ts';
import { recordingLogger } from './recording-logger.ts';
import { startedState, turnDeps } from './turn-deps.ts';

const recorder = recordedSpans();
const question = [{ role: 'user', content: 'How many apples?' }] as const;
const usage = { promptTokens: 12, completionTokens: 3, totalTokens: 15 };

describe('the factories by name', () => {
  it('S1-104 S1-16 give a span and the context in which it is the parent', () => {
    const deps = turnDeps();
    const calling = commitOf(deps.node, startedState(), [{ type: 'llm.start', iteration: 1, attempt: 1 }]).after;
    for (const traced of [startIterationSpan(deps, ROOT_CONTEXT)(1), prepareLLMCall(deps, ROOT_CONTEXT)(calling)]) {
      expect(trace.getSpan(traced.traceContext)).toBe(traced.span);
      traced.span.end();
    }
  });

  it('S1-104 S1-14 give operators', () => {
    const deps = turnDeps({ enableTracing: false });
    const { span, traceContext } = startIterationSpan(deps, ROOT_CONTEXT)(1);
    expect(traceContext).toBe(ROOT_CONTEXT);
    const calling = commitOf(deps.node, startedState(), [{ type: 'llm.start', iteration: 1, attempt: 1 }]).after;
    const call = prepareLLMCall(deps, ROOT_CONTEXT)(calling);
    const ofTurns = [
      tapAfterTurn(deps, span),
      catchTurnError(deps, startedState()),
      completeIteration(deps, span),
      catchIterationError(deps, span),
    ];
    const ofCalls = [tapLLMResponse(deps, call), catchLLMError(deps, call)];
    for (const operator of ofTurns) expect(isObservable(EMPTY.pipe(operator))).toBe(true);
    for (const operator of ofCalls) expect(isObservable(EMPTY.pipe(operator))).toBe(true);
    expect(isObservable(EMPTY.pipe(mapLLMResponseToState(deps, calling)))).toBe(true);
  });

  describe('are what a turn runs on, by what each of them alone does', () => {
    /** Runs a turn of a model, and gives what it left in the log and on its spans, by name. */
    async function traces(llmProvider: ScriptedLLM) {
      const logger = recordingLogger();
      const loop = new AgentLoop({ agentId: 'tester', llmProvider, logger, systemPrompt: 'Be brief.' });
      const turn = loop.startTurn(question, { taskId: 't' });
      const result = await turn.result().catch((error) => error);
      const spans = Object.fromEntries(recorder.spans().map((span) => [span.name, { span, ...endingOf(span) }]));
      return { result, spans, log: logger.lines.map(([, message]) => message) };
    }

    it('where it completes', async () => {
      const model = scriptedLLM([
        { toolCalls: [{ name: 'unknown', id: '' }], usage },
        { text: 'Two.', usage },
      ]);
      const { result, spans, log } = await traces(model);
      // startIterationSpan, and completeIteration that ends the span.
      expect(spans['iteration[1]']).toMatchObject({ status: 'UNSET' });
      // prepareLLMCall.
      expect(model.calls[0]?.messages[0]).toEqual({ role: 'system', content: 'Be brief.' });
      // tapLLMResponse.
      expect(spans['llm.call']?.span.attributes['gen_ai.usage.input_tokens']).toBe(12);
      expect(log).toEqual(['model call done', 'model call done']);
      // mapLLMResponseToState, which gives the call its id.
      expect(result.messages[0]).toMatchObject({ toolCalls: [{ id: '1:0' }] });
      // tapAfterTurn.
      expect(spans['agent.execute']?.span.attributes).toMatchObject({
        'millrace.outcome': 'completed',
        'millrace.usage.total_tokens': 30,
      });
    });

    it('where it fails', async () => {
      const { result, spans, log } = await traces(scriptedLLM([{ error: new TypeError('no') }]));
      const failure = { status: 'ERROR', errorType: 'PROVIDER_FAILED' };
      // catchLLMError, which gives the error its code, and catchTurnError, which makes the turn's end of it.
      expect(log).toEqual(['model call failed', 'turn failed']);
      expect(spans['llm.call']).toMatchObject(failure);
      expect(result).toMatchObject({ code: 'PROVIDER_FAILED', result: { status: 'failed' } });
      // catchIterationError.
      expect(spans['iteration[1]']).toMatchObject(failure);
      expect(spans['agent.execute']).toMatchObject({ ...failure, outcome: 'failed' });
    });
  });
});

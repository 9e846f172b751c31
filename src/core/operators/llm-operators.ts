import { context as activeContext, type Context, type Span } from '@opentelemetry/api';
import { Observable, type Subscription } from 'rxjs';
import { leaveToAttempts } from '../../observability/spans/attempt-span.ts';
import { finishLlmSpan, startLlmSpan } from '../../observability/spans/llm-span.ts';
import { cancelSpan, failSpan, type TracedSpan } from '../../observability/spans/tracing-options.ts';
import type { LLMCallParams, LLMChunk, LLMProvider, LLMResponse } from '../../providers/interfaces.ts';
import type { AbortScope } from '../abort-scope.ts';
import { CallParams } from '../call-params.ts';
import { AgentLoopError, messageOf } from '../errors.ts';
import { steeringRecords } from '../next-step.ts';
import type { LlmStart } from '../records.ts';
import { endWithResponse, recordOfResponse, responseFlaw } from '../response.ts';
import { type Commit, CommitDraft, commitOf, type Signal } from '../signals.ts';
import type { LoopState } from '../state.ts';
import { planStarts } from '../tool-plan.ts';
import type { TurnDeps } from '../turn-deps.ts';
import { viewOf } from '../view.ts';
import { type FusibleOperator, fuse, operate } from './operate.ts';

/** A model call that is ready to be made. */
export interface PreparedCall {
  readonly params: LLMCallParams;
  readonly span: Span;
  readonly traceContext: Context;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  /** Aborted with the turn, and when the call is left before its end. */
  readonly scope: AbortScope;
}

/**
 * One model call: the commit of `llm.start`, the deltas as they come, then one commit of `llm.done` with what follows from it
 * at once (the end of the turn, or the intents of the first wave of tools), as a barrier; then whatever `behind` makes of that.
 * Errors with an `AgentLoopError`. Unsubscribing closes the connection to the model.
 */
export function callLlm(deps: TurnDeps, traceContext: Context, behind: Behind) {
  const prepare = prepareLLMCall(deps, traceContext);
  return (state: LoopState, start: LlmStart): Observable<Signal> =>
    new Observable((subscriber) => {
      const started = commitOf(deps, state, [start]);
      subscriber.next(started);
      if (subscriber.closed) return;
      const call = prepare(started.after);
      const operators = fuse(
        catchLLMError(deps, call),
        tapLLMResponse(deps, call),
        mapLLMResponseToState(deps, started.after),
        ...behind,
      );
      operators(request(deps.provider, call)).subscribe(subscriber);
    });
}

/** What an iteration does with the signals of its model call: its tools, and its span. */
export type Behind = readonly [
  FusibleOperator<Signal, Signal>,
  FusibleOperator<Signal, Signal>,
  FusibleOperator<Signal, Signal>,
];

/**
 * Makes the call of a state: the view of its history with the system prompt injected, the tools, the model's settings, and the
 * `llm.call` span below `traceContext`.
 */
export function prepareLLMCall(deps: TurnDeps, traceContext: Context): (state: LoopState) => PreparedCall {
  return (state) => {
    const scope = deps.scope.child();
    const params = callParams(deps, state, scope);
    const traced = startSpan(deps, state.iteration, params, traceContext);
    params.traceContext = traced.traceContext;
    return { params, scope, span: traced.span, traceContext: traced.traceContext, startedAt: state.updatedAt };
  };
}

/** One span for the call, unless its provider makes one for each request. */
function startSpan(deps: TurnDeps, iteration: number, params: LLMCallParams, parent: Context): TracedSpan {
  const { tracing, provider, now } = deps;
  if (provider.tracesAttempts === true) return leaveToAttempts({ tracing, iteration, now }, parent);
  return startLlmSpan(tracing, { iteration, params, info: provider.info }, parent);
}

function callParams(deps: TurnDeps, state: LoopState, scope: AbortScope): CallParams {
  const { toolChoice, temperature, maxTokens } = deps.config;
  const view = viewOf(state.history, { systemPrompt: deps.systemPrompt, summary: state.summary });
  const params = new CallParams(view, deps.turn.metadata, scope);
  if (offersTools(deps, state)) {
    params.tools = deps.tools.offered;
    if (toolChoice !== undefined) params.toolChoice = toolChoice;
  }
  if (temperature !== undefined) params.temperature = temperature;
  if (maxTokens !== undefined) params.maxTokens = maxTokens;
  return params;
}

function offersTools(deps: TurnDeps, state: LoopState): boolean {
  return !state.summary && deps.tools.offered.length > 0 && deps.provider.capabilities?.tools !== false;
}

/** Makes one request of the provider, in the context of its span, through `stream` where the provider has it. */
function request(provider: LLMProvider, call: PreparedCall): Observable<LLMChunk> {
  return new Observable((subscriber) => {
    const subscribe = (): Subscription | undefined => {
      if (provider.stream && provider.capabilities?.streaming !== false) {
        return provider.stream(call.params).subscribe(subscriber);
      }
      provider.call(call.params).then(
        (response) => {
          subscriber.next({ type: 'done', response });
          subscriber.complete();
        },
        (error: unknown) => subscriber.error(error),
      );
      return undefined;
    };
    return activeContext.with(call.traceContext, subscribe);
  });
}

/**
 * Watches one model call pass: its metrics go to the span and the log when it is done, and the span ends on every way out,
 * before anything behind this operator hears of it: with the `done` chunk, with an error, or when the call is left.
 */
export function tapLLMResponse(deps: TurnDeps, call: PreparedCall): FusibleOperator<LLMChunk, LLMChunk> {
  return operate((to) => {
    let firstChunkAt: number | undefined;
    let ended = false;
    const end = () => {
      ended = true;
      call.span.end();
      call.scope.release();
    };
    to.add(() => {
      if (ended) return;
      cancelSpan(call.span);
      call.scope.abort(new AgentLoopError('CANCELED', 'The model call was left before its end.'));
      end();
    });
    return {
      next(chunk) {
        if (chunk.type === 'done') {
          finishCall(deps, call, { response: chunk.response, firstChunkAt });
          end();
        } else if (firstChunkAt === undefined) {
          firstChunkAt = deps.now();
        }
        to.next(chunk);
      },
      error(error) {
        if (!ended) end();
        to.error(error);
      },
    };
  });
}

function finishCall(
  deps: TurnDeps,
  { span, startedAt }: PreparedCall,
  { response, firstChunkAt }: { readonly response: LLMResponse; readonly firstChunkAt: number | undefined },
): void {
  const waited = firstChunkAt === undefined ? {} : { timeToFirstChunkSeconds: (firstChunkAt - startedAt) / 1000 };
  finishLlmSpan(deps.tracing, span, { response, ...waited });
  logResponse(deps, response, deps.now() - startedAt);
}

function logResponse(deps: TurnDeps, response: LLMResponse, durationMs: number): void {
  deps.config.logger.debug('model call done', {
    taskId: deps.turn.taskId,
    durationMs,
    finishReason: response.finishReason,
    totalTokens: response.usage?.totalTokens,
  });
}

/**
 * Makes any failure of a model call an `AgentLoopError`, writes it to the span and the log, and passes it on. An answer without a
 * message, or a source that completes without a `done` chunk, is a failure too: `PROVIDER_PROTOCOL`.
 */
export function catchLLMError(deps: TurnDeps, call: PreparedCall): FusibleOperator<LLMChunk, LLMChunk> {
  return operate((to) => {
    let done = false;
    const fail = (thrown: unknown) => {
      const error = providerError(deps, thrown);
      failSpan(call.span, error);
      const { taskId, agentId } = deps.turn;
      deps.config.logger.error('model call failed', { taskId, agentId, code: error.code });
      to.error(error);
    };
    return {
      next(chunk) {
        if (chunk.type === 'done') {
          const flaw = responseFlaw(chunk.response);
          if (flaw) return fail(flaw);
          done = true;
        }
        to.next(chunk);
      },
      error: fail,
      complete: () => (done ? to.complete() : fail(noResponse())),
    };
  });
}

function providerError(deps: TurnDeps, thrown: unknown): AgentLoopError {
  if (AgentLoopError.isInstance(thrown)) return thrown;
  return new AgentLoopError('PROVIDER_FAILED', `The model provider failed: ${messageOf(thrown)}`, {
    cause: thrown,
    taskId: deps.turn.taskId,
  });
}

/**
 * Turns the `done` chunk into the commit of `llm.done` and what follows from it: calls with clean ids and the intents of those
 * that start first, or the end of the turn. Other chunks pass. Completes with that commit, whatever the source does.
 */
export function mapLLMResponseToState(deps: TurnDeps, state: LoopState): FusibleOperator<LLMChunk, Signal> {
  return operate((to) => ({
    next(chunk) {
      if (chunk.type !== 'done') return to.next(chunk);
      to.next(commitOfResponse(deps, state, chunk.response));
      to.complete();
    },
  }));
}

function commitOfResponse(deps: TurnDeps, state: LoopState, response: LLMResponse): Commit {
  const record = recordOfResponse(state, response);
  const draft = new CommitDraft(deps, state);
  draft.add(record);
  if (record.calls.length > 0) {
    addFirstWave(deps, draft);
  } else if (!deps.inbox.hasSteering || state.summary || state.iteration >= deps.maxIterations) {
    for (const told of steeringRecords(deps)) draft.add(told);
    draft.add(endWithResponse(deps, state, record));
    deps.inbox.close();
  }
  return draft.finish(true);
}

/** Adds what starts first. Where a call that may not run fails the turn, the batch is left to say so. */
function addFirstWave(deps: TurnDeps, draft: CommitDraft): void {
  const { records } = planStarts(deps, draft.after);
  if (deps.config.toolFailureMode === 'fail' && records.some(({ type }) => type === 'tool.result')) return;
  for (const record of records) draft.add(record);
}

function noResponse(): AgentLoopError {
  return new AgentLoopError(
    'PROVIDER_PROTOCOL',
    'The model provider completed its stream without a "done" chunk; emit { type: "done", response } last.',
  );
}

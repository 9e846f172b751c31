import { context as activeContext, type Context, ROOT_CONTEXT } from '@opentelemetry/api';
import { Observable, type Subscriber } from 'rxjs';
import { finishLlmSpan, usageOnSpan } from '../../observability/spans/llm-span.ts';
import { cancelSpan, exceptionOf, failSpan } from '../../observability/spans/tracing-options.ts';
import { AgentLoopError, messageOf } from '../contracts/errors.ts';
import type { LLMChunk, LLMProvider, LLMResponse } from '../contracts/provider.ts';
import type { HookPlace } from '../hooks/hook-context.ts';
import { maxIterationsOf } from '../journal/call-settings.ts';
import type { LlmDone } from '../journal/records.ts';
import { type Commit, CommitDraft, commitOf, type Signal } from '../journal/signals.ts';
import type { LoopState } from '../journal/state.ts';
import { type FusibleOperator, fuse, fusedSubscriber, type Sink, Stage, staged } from '../streams/operate.ts';
import { loadChecks } from '../tool-call/check-call.ts';
import { steeringRecords } from '../tool-call/replies.ts';
import { planFirstWave } from '../tool-call/tool-plan.ts';
import type { TurnDeps } from '../turn/turn-deps.ts';
import type { CallParams } from './call-params.ts';
import { type ChangedCall, type ChangedResponse, changeCall, changeResponse } from './change-call.ts';
import { ModelSilence } from './model-silence.ts';
import { callParams, type PreparedCall, prepareLLMCall } from './prepare-call.ts';
import type { ModelCall } from './prepare-view.ts';
import { endWithResponse, recordOfResponse, responseFlaw } from './response.ts';

/**
 * One model call: the commit of `llm.start`, the deltas as they come, then one commit of `llm.done` with what follows from it
 * at once (the end of the turn, or the intents of the first wave of tools), as a barrier; then whatever `behind` makes of that.
 * Errors with an `AgentLoopError`. Unsubscribing closes the connection to the model.
 */
export function callLlm(deps: TurnDeps, traceContext: Context, behind: Behind) {
  const prepare = prepareLLMCall(deps, traceContext);
  return (state: LoopState, step: ModelCall): Observable<Signal> => {
    if (deps.hooks.lists.beforeLLMCall.length > 0) return fuse(...behind)(callAsked(deps, traceContext)(state, step));
    return new Observable((subscriber) => {
      const started = commitOf(deps, state, [step.start]);
      subscriber.next(started);
      if (subscriber.closed) return;
      const call = prepare(started.after, { view: step.view });
      const [failing, tapping, mapping] = stagesOf(deps, call, { state: started.after, traceContext });
      request(deps, call, fusedSubscriber([failing, tapping, mapping, ...behind], subscriber));
    });
  };
}

/** A model call around which extensions are called, without the downstream stages: those also apply to answers of extensions. */
function callAsked(deps: TurnDeps, traceContext: Context) {
  const prepare = prepareLLMCall(deps, traceContext);
  const change = changeCall(deps, traceContext);
  return (state: LoopState, { start, view }: ModelCall): Observable<Signal> =>
    new Observable((subscriber) => {
      const started = commitOf(deps, state, [start]);
      subscriber.next(started);
      if (subscriber.closed) return;
      const scope = deps.scope.child();
      subscriber.add(() => scope.release());
      const params = callParams(deps, started.after, { view, scope });
      const run = (changed: ChangedCall) => {
        if (subscriber.closed) return;
        const call = prepare(started.after, { params, scope, changed });
        const stages = stagesOf(deps, call, { state: started.after, traceContext });
        new Observable<LLMChunk>((to) => request(deps, call, to)).pipe(fuse(...stages)).subscribe(subscriber);
      };
      const changed = change(started.after, params);
      if (changed instanceof Promise) changed.then(run).catch((error: unknown) => subscriber.error(error));
      else run(changed);
    });
}

/** What every model call goes through. A step that extensions inspect later records the options of its call. */
function stagesOf(deps: TurnDeps, call: PreparedCall, { state, traceContext }: HookPlace) {
  const { hooks } = deps;
  hooks.lastCall = { iteration: state.iteration, params: call.params, historyLength: state.history.length };
  return [
    catchLLMError(deps, call),
    tapLLMResponse(deps, call),
    mapLLMResponseToState(deps, state, traceContext),
  ] as const;
}

/** What an iteration does with the signals of its model call: its tools, and its span. */
export type Behind = readonly [
  FusibleOperator<Signal, Signal>,
  FusibleOperator<Signal, Signal>,
  FusibleOperator<Signal, Signal>,
];

/** Makes one request of the provider, unless the answer is there already, in the context of its span, through `stream` where the provider has it. */
function request(deps: TurnDeps, call: PreparedCall, to: Subscriber<LLMChunk>): void {
  const { provider = deps.provider, response } = call;
  if (response) return give(response, to);
  const { config, openCall } = deps;
  const silence = config.modelSilenceMs > 0 ? new ModelSilence(config.clock, config.modelSilenceMs) : undefined;
  openCall.silence = silence;
  silence?.limit(call.params);
  try {
    activeContext.with(call.traceContext, subscribe, undefined, provider, call.params, to);
  } catch (error) {
    return to.error(error);
  }
  if (to.closed || openCall.isAnswered) return;
  silence?.start((error) => {
    call.scope.abort(error);
    to.error(error);
  });
}

function subscribe(provider: LLMProvider, params: CallParams, to: Subscriber<LLMChunk>): void {
  if (provider.stream && provider.capabilities?.streaming !== false) {
    provider.stream(params).subscribe(to);
    return;
  }
  provider.call(params).then(
    (response) => give(response, to),
    (error: unknown) => to.error(error),
  );
}

function give(response: LLMResponse, to: Subscriber<LLMChunk>): void {
  to.next({ type: 'done', response });
  to.complete();
}

/**
 * Watches one model call pass: its metrics go to the span and the log when it is done, and the span ends on every way out,
 * before anything downstream of this operator hears of it: with the `done` chunk, with an error, or when the call is left.
 */
export function tapLLMResponse(deps: TurnDeps, call: PreparedCall): FusibleOperator<LLMChunk, LLMChunk> {
  return staged((to) => new ResponseTap(deps, call, to));
}

class ResponseTap extends Stage<LLMChunk> {
  readonly #deps: TurnDeps;
  readonly #call: PreparedCall;
  #firstChunkAt: number | undefined;
  #ended = false;

  constructor(deps: TurnDeps, call: PreparedCall, to: Sink<LLMChunk>) {
    super(to);
    this.#deps = deps;
    this.#call = call;
    if (!call.response) call.params.noteUsage = deps.openCall.begin(call.params, call.provider ?? deps.provider);
  }

  protected override take(given: LLMChunk): void {
    const chunk = this.#deps.openCall.saw(given);
    if (chunk.type === 'done') {
      finishCall(this.#deps, this.#call, { response: chunk.response, firstChunkAt: this.#firstChunkAt });
      this.#end();
    } else {
      this.#firstChunkAt ??= this.#deps.now();
    }
    this.to.next(chunk);
  }

  protected override failed(error: unknown): void {
    const { openCall } = this.#deps;
    if (AgentLoopError.isInstance(error)) openCall.failed(error);
    usageOnSpan(this.#call.span, openCall.usage);
    if (!this.#ended) this.#end();
    this.to.error(error);
  }

  protected override left(): void {
    if (this.#ended) return;
    const { span, scope } = this.#call;
    usageOnSpan(span, this.#deps.openCall.usage);
    cancelSpan(span);
    scope.abort(new AgentLoopError('CANCELED', 'The model call was left before its end.'));
    this.#end();
  }

  #end(): void {
    this.#ended = true;
    this.#deps.openCall.silence?.end();
    this.#call.span.end();
    this.#call.scope.release();
  }
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
  return staged((to) => new CallFailure(deps, call, to));
}

class CallFailure extends Stage<LLMChunk> {
  readonly #deps: TurnDeps;
  readonly #call: PreparedCall;
  #done = false;

  constructor(deps: TurnDeps, call: PreparedCall, to: Sink<LLMChunk>) {
    super(to);
    this.#deps = deps;
    this.#call = call;
  }

  protected override take(chunk: LLMChunk): void {
    if (chunk.type === 'done') {
      const flaw = responseFlaw(chunk.response);
      if (flaw) return this.failed(flaw);
      this.#done = true;
    }
    this.to.next(chunk);
  }

  protected override failed(thrown: unknown): void {
    const error = providerError(this.#deps, thrown);
    const { config, turn, tracing } = this.#deps;
    failSpan(this.#call.span, error);
    const { taskId, agentId } = turn;
    const said = { taskId, agentId, code: error.code, error: exceptionOf(error, tracing.redact) };
    config.logger.warn('model call failed', said);
    this.to.error(error);
  }

  protected override completed(): void {
    if (this.#done) this.to.complete();
    else this.failed(noResponse());
  }
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
export function mapLLMResponseToState(
  deps: TurnDeps,
  state: LoopState,
  traceContext: Context = ROOT_CONTEXT,
): FusibleOperator<LLMChunk, Signal> {
  return staged((to) => new ResponseMapping(deps, { state, traceContext }, to));
}

class ResponseMapping extends Stage<LLMChunk, Signal> {
  readonly #deps: TurnDeps;
  readonly #place: HookPlace;
  /** Extensions, or for what the checks of calls need. */
  #waiting = false;

  constructor(deps: TurnDeps, place: HookPlace, to: Sink<Signal>) {
    super(to);
    this.#deps = deps;
    this.#place = place;
  }

  protected override take(chunk: LLMChunk): void {
    if (chunk.type !== 'done') return this.to.next(chunk);
    const { response } = chunk;
    if (this.#deps.hooks.lists.afterLLMCall.length === 0) return this.#give({ response, records: unchanged });
    const changed = changeResponse(this.#deps, this.#place.traceContext)(this.#place.state, response);
    if (changed instanceof Promise) this.#await(changed, (given) => this.#give(given));
    else this.#give(changed);
  }

  protected override completed(): void {
    if (!this.#waiting) this.to.complete();
  }

  #await<A>(promise: Promise<A>, resume: (answer: A) => void): void {
    this.#waiting = true;
    promise.then((answer) => this.to.closed || resume(answer)).catch((error: unknown) => this.to.error(error));
  }

  #give({ response, records }: ChangedResponse): void {
    const record = recordOfResponse(this.#place.state, response);
    const loading = loadChecks(this.#deps, record.calls);
    if (loading) this.#await(loading, () => this.#commit(record, records));
    else this.#commit(record, records);
  }

  #commit(record: LlmDone, changes: ChangedResponse['records']): void {
    this.to.next(commitOfResponse(this.#deps, this.#place, { record, changes }));
    this.to.complete();
  }
}

const unchanged: ChangedResponse['records'] = [];

function commitOfResponse(
  deps: TurnDeps,
  { state, traceContext }: HookPlace,
  { record, changes }: { readonly record: LlmDone; readonly changes: ChangedResponse['records'] },
): Commit {
  deps.openCall.close();
  const draft = new CommitDraft(deps, state);
  draft.add(record);
  for (const change of changes) draft.add(change);
  if (record.calls.length > 0) {
    addFirstWave(deps, draft, traceContext);
  } else if (closesWithHooks(deps, draft.after)) {
    return draft.finish(true);
  } else if (!deps.inbox.hasSteering || state.summary || state.iteration >= maxIterationsOf(deps, state)) {
    for (const told of steeringRecords(deps)) draft.add(told);
    draft.add(endWithResponse(deps, state, record));
    deps.inbox.close(draft.after);
  }
  return draft.finish(true);
}

/** Whether extensions have a say in how the turn ends: that is asked between two steps. */
function closesWithHooks({ hooks }: TurnDeps, { changes }: LoopState): boolean {
  const { beforeFinish, afterIteration, afterTurn } = hooks.lists;
  return beforeFinish.length > 0 || afterIteration.length > 0 || afterTurn.length > 0 || changes.finish !== undefined;
}

/** Adds what starts first. Where a call that may not run fails the turn, the batch is left to say so. */
function addFirstWave(deps: TurnDeps, draft: CommitDraft, traceContext: Context): void {
  const records = planFirstWave(deps, { state: draft.after, traceContext });
  if (deps.hooks.failure) return;
  if (deps.config.toolFailureMode === 'fail' && records.some(({ type }) => type === 'tool.result')) return;
  for (const record of records) draft.add(record);
}

function noResponse(): AgentLoopError {
  return new AgentLoopError(
    'PROVIDER_PROTOCOL',
    'The model provider completed its stream without a "done" chunk; emit { type: "done", response } last.',
  );
}

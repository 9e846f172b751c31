import { type Context, ROOT_CONTEXT } from '@opentelemetry/api';
import { type LLMChunk, type LLMResponse, textOf } from '../contracts/index.ts';
import type { AskedHook, HookPlace } from '../hooks/hook-context.ts';
import {
  CommitDraft,
  type LlmDone,
  type LoopState,
  type ModelNoted,
  maxIterationsOf,
  type Signal,
} from '../journal/index.ts';
import { leftReason } from '../ownership/child-turns.ts';
import { steeringRecords } from '../ownership/inbox.ts';
import { type FusibleOperator, type Sink, Stage, staged } from '../streams/index.ts';
import { loadChecks } from '../tool-call/check-call.ts';
import { planFirstWave } from '../tool-call/tool-plan.ts';
import { type ChangedResponse, changeResponse } from './change-call.ts';
import type { ModelCallDeps } from './open-model-call.ts';
import type { PreparedCall } from './request.ts';
import { endWithResponse, failedSummary, noResponse, recordOfResponse, responseFlaw } from './response.ts';

/** Waits for the outcome of a model's answer. */
export interface Responder {
  /** Whether the caller no longer waits. */
  readonly isOver: boolean;
  /** Receives each hook that returned a promise, to abort it if the call ends before. */
  waitsFor(question: AskedHook): void;
  /** Receives the append of `llm.done` and the records that follow at once. */
  commit(draft: CommitDraft): void;
  fail(error: unknown): void;
}

interface Answer {
  readonly response: LLMResponse;
  readonly to: Responder;
}

/**
 * Calls the extensions for an answer, loads the checks of its calls, and builds the append of `llm.done`: with the end of the turn,
 * or the intents of the first wave of tools. Synchronous unless an extension or a check is asynchronous.
 */
export function respond(deps: ModelCallDeps, place: HookPlace, { response, to }: Answer): void {
  if (deps.hooks.lists.afterLLMCall.length === 0) return load(deps, place, { response, records: unchanged, to });
  const changed = changeResponse(deps, place.traceContext, (question) => to.waitsFor(question))(place.state, response);
  if (changed instanceof Promise) resume(changed, (given) => load(deps, place, { ...given, to }), to);
  else load(deps, place, { ...changed, to });
}

/** The reason to abort a hook. */
export function reasonToLeave({ inbox: { scope }, segment: { turn } }: ModelCallDeps): unknown {
  return scope.aborted ? scope.reason : leftReason(turn.taskId);
}

const unchanged: ChangedResponse['records'] = [];

function load(deps: ModelCallDeps, place: HookPlace, { response, records, to }: ChangedResponse & Answer): void {
  const record = recordOfResponse(place.state, response);
  const loading = loadChecks(deps, record.calls);
  if (loading) resume(loading, () => to.commit(draftOf(deps, place, { record, records })), to);
  else to.commit(draftOf(deps, place, { record, records }));
}

function resume<A>(promise: Promise<A>, next: (answer: A) => void, to: Responder): void {
  promise.then((answer) => to.isOver || next(answer)).catch((error: unknown) => to.fail(error));
}

function draftOf(
  deps: ModelCallDeps,
  { state, traceContext }: HookPlace,
  { record, records }: { readonly record: LlmDone; readonly records: ChangedResponse['records'] },
): CommitDraft {
  deps.openModelCall.close();
  const draft = new CommitDraft(deps.node, state);
  draft.add(record);
  for (const change of records) draft.add(change);
  if (record.calls.length > 0) {
    addFirstWave(deps, draft, traceContext);
  } else if (closesWithHooks(deps, draft.after)) {
    return draft;
  } else if (
    !deps.inbox.hasSteering ||
    state.summary ||
    state.iteration >= maxIterationsOf(deps.segment.config, state)
  ) {
    for (const record of steeringRecords(deps.inbox, true)) draft.add(record);
    draft.add(endWithResponse(deps.segment.config, state, record));
    deps.inbox.close(draft.after);
  }
  return draft;
}

/** Whether extensions take part in the end of the turn: then the loop ends it, between two steps. */
function closesWithHooks({ hooks }: ModelCallDeps, { changes }: LoopState): boolean {
  const { beforeFinish, afterIteration, afterTurn } = hooks.lists;
  return beforeFinish.length > 0 || afterIteration.length > 0 || afterTurn.length > 0 || changes.finish !== undefined;
}

/** Adds the calls that start first. If a refused call fails the turn, the batch does that. */
function addFirstWave(deps: ModelCallDeps, draft: CommitDraft, traceContext: Context): void {
  const records = planFirstWave(deps, { state: draft.after, traceContext });
  if (deps.hooks.failure) return;
  if (deps.segment.config.toolFailureMode === 'fail' && records.some(({ type }) => type === 'tool.result')) return;
  draft.addAll(records);
}

/** What the operators of a model call pass on: the chunks of the answer, and the provider's notes. */
export type CallSignal = LLMChunk | ModelNoted;

/**
 * Converts any failure of a model call to an `AgentLoopError`, records it on the span and in the log, and passes it on. An answer without a
 * message, or a source that completes without a `done` chunk, fails too: `PROVIDER_PROTOCOL`. Chunks and failures after `done` are
 * dropped.
 */
export function catchLLMError(_deps: ModelCallDeps, call: PreparedCall): FusibleOperator<CallSignal, CallSignal> {
  return staged((to) => new CallFailure(call, to));
}

class CallFailure extends Stage<CallSignal> {
  declare private readonly call: PreparedCall;
  declare private done: boolean;

  constructor(call: PreparedCall, to: Sink<CallSignal>) {
    super(to);
    this.call = call;
    this.done = false;
  }

  protected override take(chunk: CallSignal): CallSignal | undefined {
    if (this.done) return undefined;
    const flaw = chunk.type === 'done' && responseFlaw(chunk.response);
    if (flaw) return void this.failed(flaw);
    this.done = chunk.type === 'done';
    return chunk;
  }

  protected override failed(thrown: unknown): void {
    if (this.done) this.to.complete();
    else this.to.error(this.call.failed(thrown));
  }

  protected override completed(): void {
    if (this.done) this.to.complete();
    else this.failed(noResponse());
  }
}

/**
 * Measures one model call: records its metrics on the span and in the log when it is done, and ends the span on complete, error and unsubscribe,
 * before it notifies downstream. Deltas are passed on with whole characters, without calls that repeat an earlier one; the notes that the
 * provider makes before the end are passed on between them.
 */
export function tapLLMResponse(_deps: ModelCallDeps, call: PreparedCall): FusibleOperator<CallSignal, CallSignal> {
  return staged((to) => new ResponseTap(call, to));
}

class ResponseTap extends Stage<CallSignal> {
  declare private readonly call: PreparedCall;

  constructor(call: PreparedCall, to: Sink<CallSignal>) {
    super(to);
    this.call = call;
    call.begin(to);
  }

  protected override take(chunk: CallSignal): CallSignal | undefined {
    if (chunk.type === 'done') return this.call.answered(chunk);
    if (chunk.type === 'model-note') return chunk;
    this.call.saw(chunk, this.to);
    return undefined;
  }

  protected override failed(error: unknown): void {
    this.call.endWith(error);
    this.to.error(error);
  }

  protected override finalize(): void {
    this.call.leave();
  }
}

/**
 * Converts the `done` chunk to the commit of `llm.done` and the records that follow: calls with clean ids and the intents of those
 * that start first, or the end of the turn. Passes everything else on. Completes with that commit, whatever the source does.
 */
export function mapLLMResponseToState(
  deps: ModelCallDeps,
  state: LoopState,
  traceContext: Context = ROOT_CONTEXT,
): FusibleOperator<CallSignal, Signal> {
  return staged((to) => new ResponseMapping(deps, { state, traceContext }, to));
}

class ResponseMapping extends Stage<CallSignal, Signal> implements Responder {
  declare private readonly deps: ModelCallDeps;
  declare private readonly place: HookPlace;
  declare private question: AskedHook | undefined;

  constructor(deps: ModelCallDeps, place: HookPlace, to: Sink<Signal>) {
    super(to, 'records');
    this.deps = deps;
    this.place = place;
    this.question = undefined;
  }

  get isOver(): boolean {
    return this.to.closed;
  }

  waitsFor(question: AskedHook): void {
    this.question = question;
  }

  commit(draft: CommitDraft): void {
    this.to.next(draft.finish(true));
    this.to.complete();
  }

  fail(error: unknown): void {
    this.to.error(error);
  }

  protected override take(chunk: CallSignal): Signal | undefined {
    if (chunk.type !== 'done') return chunk;
    // Nothing of the source counts any more.
    this.close();
    const { response } = chunk;
    if (this.place.state.summary && textOf(response.message.content) === '') this.to.next(emptySummary());
    respond(this.deps, this.place, { response, to: this });
    return undefined;
  }

  protected override finalize(): void {
    if (this.question?.isOver === false) this.question.leave(reasonToLeave(this.deps));
  }
}

function emptySummary(): ModelNoted {
  return { type: 'model-note', note: { kind: 'warning', message: failedSummary('the model gave no text.') } };
}

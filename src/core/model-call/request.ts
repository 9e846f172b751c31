import type { Context, Span } from '@opentelemetry/api';
import {
  finishLlmSpan,
  leaveToAttempts,
  noteOnSpan,
  startLlmSpan,
  usageOnSpan,
} from '../../observability/spans/call-spans.ts';
import { measureChunks } from '../../observability/spans/instruments.ts';
import { cancelSpan, exceptionOf, failSpan, type TracedSpan } from '../../observability/spans/tracing-options.ts';
import {
  AgentLoopError,
  copySettings,
  isModelNote,
  type LLMCallParams,
  type LLMChunk,
  type LLMProvider,
  type LLMResponse,
  type Message,
  type ModelNote,
  reasonOf,
  silentLogger,
} from '../contracts/index.ts';
import { type LoopState, type ModelNoted, noSettings, type StreamChunk } from '../journal/index.ts';
import type { AbortScope } from '../streams/index.ts';
import { CallParams } from './call-params.ts';
import type { ChangedCall, PreparedView } from './change-call.ts';
import { withSizes } from './failed-call.ts';
import { HeldCalls } from './held-calls.ts';
import type { ModelCallDeps } from './open-model-call.ts';
import { messagesWith, viewOf } from './view.ts';
import { WholeCharacters } from './whole-characters.ts';

/** A call that extensions received, and their changes. */
interface ShownCall {
  readonly params: CallParams;
  readonly scope: AbortScope;
  readonly changed: ChangedCall;
}

/** Receives the deltas to emit, and the provider's notes. */
interface DeltaOwner {
  next(signal: StreamChunk | ModelNoted): void;
}

interface CallOptions {
  readonly params: CallParams;
  readonly scope: AbortScope;
  readonly traced: TracedSpan;
  readonly changed: ChangedCall | undefined;
  readonly startedAt: number;
}

/**
 * One model call, from the start of its span to its end. Its span ends once, on the first of: the answer, a failure, and `leave`; the
 * call then releases its scope.
 */
export class PreparedCall {
  /** The parameters of the call. */
  readonly params: CallParams;
  /** The turn's provider, unless extensions chose another. */
  readonly provider: LLMProvider;
  /** The extensions' answer, if any: no provider is called. */
  readonly response: LLMResponse | undefined;
  readonly span: Span;
  /** The context with `llm.call` as the active span. */
  readonly traceContext: Context;
  /** Aborted with the turn, and when the call is aborted before its end. */
  readonly scope: AbortScope;
  readonly #deps: ModelCallDeps;
  /** Milliseconds since 1970. */
  readonly #startedAt: number;
  #calls: HeldCalls | undefined;
  #characters: WholeCharacters | undefined;
  /** Whether anyone observes when chunks arrive. */
  readonly #isTimed: boolean;
  readonly #measureChunk: (() => void) | undefined;
  #firstChunkAt: number | undefined;
  #ended = false;

  constructor(deps: ModelCallDeps, { params, scope, traced, changed, startedAt }: CallOptions) {
    this.#deps = deps;
    this.params = params;
    this.scope = scope;
    this.span = traced.span;
    this.traceContext = traced.traceContext;
    this.provider = changed?.provider ?? deps.segment.config.llmProvider;
    this.response = changed?.response;
    this.#startedAt = startedAt;
    this.#isTimed = traced.span.isRecording();
    if (this.#isTimed) this.#measureChunk = measureChunks(traced.span);
  }

  /** The request starts: its usage counts from now on. `to` receives the provider's notes until the call ends. */
  begin(to: DeltaOwner): void {
    if (this.response) return;
    this.params.noteUsage = this.#deps.openModelCall.begin(this.params);
    // Not written into the assignment: V8 would put the function into old space, and the turn with it.
    const note = (given: ModelNote): void => this.#noted(given, to);
    this.params.note = note;
  }

  #noted(note: ModelNote, to: DeltaOwner): void {
    if (this.#ended || !isModelNote(note)) return;
    if (this.span.isRecording()) noteOnSpan(this.span, note);
    to.next({ type: 'model-note', note });
  }

  /** A delta has arrived. Passes on what is to be emitted by now: with whole characters, and without calls that repeat an earlier one. */
  saw(delta: StreamChunk, to: DeltaOwner): void {
    this.#deps.openModelCall.silence?.heard();
    if (this.#isTimed && delta.type !== 'attempt') this.#time();
    // Written out: this is the hot path, and nearly every delta ends with a whole character.
    if ((delta.type === 'text' || delta.type === 'reasoning') && !this.#characters) {
      const { text } = delta;
      if ((text.charCodeAt(text.length - 1) & 0xfc00) !== 0xd800) return to.next(delta);
    }
    if (delta.type === 'attempt') this.#calls?.clear();
    if (delta.type !== 'tool-call') return this.#emit(delta, to);
    this.#calls ??= new HeldCalls();
    const released = this.#calls.released(delta);
    if (released) this.#emit(released, to);
    if (this.#calls.shows(delta)) this.#emit(delta, to);
  }

  #time(): void {
    this.#firstChunkAt ??= this.#deps.node.now();
    this.#measureChunk?.();
  }

  #emit(delta: StreamChunk, to: DeltaOwner): void {
    // Written out: this is the hot path, and nearly every delta ends with a whole character.
    let piece: string | undefined;
    if (delta.type === 'tool-call') piece = delta.arguments;
    else if (delta.type !== 'attempt') piece = delta.text;
    if (!this.#characters && !(piece && (piece.charCodeAt(piece.length - 1) & 0xfc00) === 0xd800))
      return to.next(delta);
    this.#characters ??= new WholeCharacters();
    const whole = this.#characters.take(delta);
    if (whole) to.next(whole);
  }

  /** The answer has arrived. Returns the chunk to emit, with the reported usage of failed requests. Ends the span. */
  answered(given: Extract<LLMChunk, { type: 'done' }>): Extract<LLMChunk, { type: 'done' }> {
    const response = this.#deps.openModelCall.answered(given.response);
    if (this.span.isRecording()) this.#describe(response);
    this.#log(response);
    this.#end();
    return response === given.response ? given : { type: 'done', response };
  }

  #describe(response: LLMResponse): void {
    const firstChunkAt = this.#firstChunkAt;
    const waited = firstChunkAt === undefined ? undefined : (firstChunkAt - this.#startedAt) / 1000;
    finishLlmSpan(this.#deps.segment.tracing, this.span, {
      response,
      ...(waited === undefined ? {} : { timeToFirstChunkSeconds: waited }),
    });
  }

  #log({ finishReason, usage }: LLMResponse): void {
    const { config, turn } = this.#deps.segment;
    if (config.logger === silentLogger) return;
    const durationMs = this.#deps.node.now() - this.#startedAt;
    const said = { taskId: turn.taskId, durationMs, finishReason, totalTokens: usage?.totalTokens };
    config.logger.debug('model call done', said);
  }

  /** Converts a failure of the call to an `AgentLoopError`, and records it on the span and in the log. */
  failed(thrown: unknown): AgentLoopError {
    const { segment, hooks } = this.#deps;
    const { config, turn, tracing } = segment;
    const isManaged = hooks.lists.onLLMError.length > 0;
    const error = withSizes(providerError(thrown, turn.taskId), this.params, isManaged);
    failSpan(this.span, error);
    const { taskId, agentId } = turn;
    const said = { taskId, agentId, code: error.code, error: exceptionOf(error, tracing.redact) };
    config.logger.warn('model call failed', said);
    return error;
  }

  /** Ends the call with an error; its span gets the usage so far. */
  endWith(error: unknown): void {
    const { openModelCall } = this.#deps;
    if (AgentLoopError.isInstance(error)) openModelCall.failed(error);
    usageOnSpan(this.span, openModelCall.usage);
    if (!this.#ended) this.#end();
  }

  /** Cancels the call. */
  leave(): void {
    if (this.#ended) return;
    usageOnSpan(this.span, this.#deps.openModelCall.usage);
    cancelSpan(this.span);
    this.scope.abort(new AgentLoopError('CANCELED', 'The model call was cancelled before its end.'));
    this.#end();
  }

  #end(): void {
    this.#ended = true;
    this.#deps.openModelCall.silence?.end();
    this.span.end();
    this.scope.release();
  }
}

function providerError(thrown: unknown, taskId: string): AgentLoopError {
  if (AgentLoopError.isInstance(thrown)) return thrown;
  return new AgentLoopError('PROVIDER_FAILED', `The model provider failed: ${reasonOf(thrown)}`, {
    cause: thrown,
    taskId,
  });
}

/**
 * Prepares the model call of a state: the view of its history with the system prompt, the tools, the model's settings, and the
 * `llm.call` span below `traceContext`.
 */
export function prepareLLMCall(
  deps: ModelCallDeps,
  traceContext: Context,
): (state: LoopState, from?: { readonly view?: PreparedView | undefined } | ShownCall) => PreparedCall {
  return (state, from = {}) => {
    const shown = 'changed' in from ? from : undefined;
    const scope = shown?.scope ?? deps.inbox.scope.child();
    const params = shown?.params ?? callParams(deps, state, { view: 'view' in from ? from.view : undefined, scope });
    const changed = shown?.changed;
    if (changed) Object.assign(params, changed.params);
    const provider = changed?.provider ?? deps.segment.config.llmProvider;
    const traced = startSpan(deps, { iteration: state.iteration, params, provider }, traceContext);
    params.traceContext = traced.traceContext;
    return new PreparedCall(deps, { params, scope, traced, changed, startedAt: state.updatedAt });
  };
}

/** One span for the call, unless its provider creates one per request. */
function startSpan(
  { segment: { tracing }, node: { now } }: ModelCallDeps,
  {
    iteration,
    params,
    provider,
  }: { readonly iteration: number; readonly params: LLMCallParams; readonly provider: LLMProvider },
  parent: Context,
): TracedSpan {
  if (provider.tracesAttempts === true) return leaveToAttempts({ tracing, iteration, now }, parent);
  const isStreamed = provider.stream !== undefined && provider.capabilities?.streaming !== false;
  return startLlmSpan(tracing, { iteration, params, info: provider.info, isStreamed }, parent);
}

export function callParams(
  deps: ModelCallDeps,
  state: LoopState,
  { view, scope }: { readonly view: PreparedView | undefined; readonly scope: AbortScope },
): CallParams {
  const params = new CallParams(messagesOf(deps, state, view), deps.segment.turn.metadata, scope);
  copySettings(params, view?.settings ?? deps.segment.config);
  if (!view && state.changes.settings !== noSettings) copySettings(params, state.changes.settings);
  const { offered } = view?.offer ?? deps.segment.tools.after(state.changes.tools);
  if (offersTools(deps, state) && offered.length > 0) params.tools = offered;
  else if (params.toolChoice !== undefined) delete params.toolChoice;
  return params;
}

function messagesOf(deps: ModelCallDeps, state: LoopState, view: PreparedView | undefined): readonly Message[] {
  const { summary, history, changes } = state;
  if (view && view.systemPrompt === undefined && !summary) return view.messages;
  if (view) return messagesWith(view.systemPrompt, [...view.messages], summary);
  return viewOf(history, { systemPrompt: changes.settings.systemPrompt ?? deps.segment.config.systemPrompt, summary });
}

function offersTools(deps: ModelCallDeps, state: LoopState): boolean {
  return !state.summary && deps.segment.config.llmProvider.capabilities?.tools !== false;
}

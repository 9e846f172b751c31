import { type Context, ROOT_CONTEXT } from '@opentelemetry/api';
import type { LLMChunk } from '../contracts/provider.ts';
import type { AskedHook, HookPlace } from '../hooks/hook-context.ts';
import type { CommitDraft, Signal } from '../journal/signals.ts';
import type { LoopState } from '../journal/state.ts';
import { type FusibleOperator, type Sink, Stage, staged } from '../streams/operate.ts';
import type { TurnDeps } from '../turn/turn-deps.ts';
import type { PreparedCall } from './prepare-call.ts';
import { type Responder, reasonToLeave, respond } from './respond.ts';
import { noResponse, responseFlaw } from './response.ts';

// The parts of a model call as operators, for turns that are composed by hand. `ModelStep` runs the same parts as one object.

/**
 * Watches one model call pass: its metrics go to the span and the log when it is done, and the span ends on every way out,
 * before anything downstream of this operator hears of it: with the `done` chunk, with an error, or when the call is left.
 */
export function tapLLMResponse(_deps: TurnDeps, call: PreparedCall): FusibleOperator<LLMChunk, LLMChunk> {
  return staged((to) => new ResponseTap(call, to));
}

class ResponseTap extends Stage<LLMChunk> {
  readonly #call: PreparedCall;

  constructor(call: PreparedCall, to: Sink<LLMChunk>) {
    super(to);
    this.#call = call;
    call.begin();
  }

  protected override take(chunk: LLMChunk): void {
    if (chunk.type === 'done') return this.to.next(this.#call.answered(chunk));
    this.#call.saw(chunk);
    this.to.next(chunk);
  }

  protected override failed(error: unknown): void {
    this.#call.endWith(error);
    this.to.error(error);
  }

  protected override left(): void {
    this.#call.leave();
  }
}

/**
 * Makes any failure of a model call an `AgentLoopError`, writes it to the span and the log, and passes it on. An answer without a
 * message, or a source that completes without a `done` chunk, is a failure too: `PROVIDER_PROTOCOL`. Chunks and failures after `done` are
 * dropped: the call has its answer.
 */
export function catchLLMError(_deps: TurnDeps, call: PreparedCall): FusibleOperator<LLMChunk, LLMChunk> {
  return staged((to) => new CallFailure(call, to));
}

class CallFailure extends Stage<LLMChunk> {
  readonly #call: PreparedCall;
  #done = false;

  constructor(call: PreparedCall, to: Sink<LLMChunk>) {
    super(to);
    this.#call = call;
  }

  protected override take(chunk: LLMChunk): void {
    if (this.#done) return;
    if (chunk.type === 'done') {
      const flaw = responseFlaw(chunk.response);
      if (flaw) return this.failed(flaw);
      this.#done = true;
    }
    this.to.next(chunk);
  }

  protected override failed(thrown: unknown): void {
    if (this.#done) this.to.complete();
    else this.to.error(this.#call.failed(thrown));
  }

  protected override completed(): void {
    if (this.#done) this.to.complete();
    else this.failed(noResponse());
  }
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

class ResponseMapping extends Stage<LLMChunk, Signal> implements Responder {
  readonly #deps: TurnDeps;
  readonly #place: HookPlace;
  #answered = false;
  #question: AskedHook | undefined;

  constructor(deps: TurnDeps, place: HookPlace, to: Sink<Signal>) {
    super(to);
    this.#deps = deps;
    this.#place = place;
  }

  get isOver(): boolean {
    return this.to.closed;
  }

  waitsFor(question: AskedHook): void {
    this.#question = question;
  }

  commit(draft: CommitDraft): void {
    this.to.next(draft.finish(true));
    this.to.complete();
  }

  fail(error: unknown): void {
    this.to.error(error);
  }

  protected override take(chunk: LLMChunk): void {
    if (this.#answered) return;
    if (chunk.type !== 'done') return this.to.next(chunk);
    this.#answered = true;
    respond(this.#deps, this.#place, { response: chunk.response, to: this });
  }

  protected override failed(error: unknown): void {
    if (!this.#answered) this.to.error(error);
  }

  protected override completed(): void {
    if (!this.#answered) this.to.complete();
  }

  protected override left(): void {
    if (this.#question?.isOver === false) this.#question.leave(reasonToLeave(this.#deps));
  }
}

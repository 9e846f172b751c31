import { context as activeContext, type Context } from '@opentelemetry/api';
import type { Observable } from 'rxjs';
import type { LLMChunk, LLMProvider, LLMResponse } from '../contracts/index.ts';
import type { AskedHook } from '../hooks/hook-context.ts';
import { recordBranches } from '../hooks/record-of-change.ts';
import { CommitDraft, type LoopState, type Signal } from '../journal/index.ts';
import { DirectSubscriber, pipeInto, type Sink, Source } from '../streams/index.ts';
import { type CallSignal, catchLLMError, mapLLMResponseToState, reasonToLeave, tapLLMResponse } from './answer.ts';
import type { CallParams } from './call-params.ts';
import { type ChangedCall, changeCall, type ModelCall } from './change-call.ts';
import { ModelSilence } from './limits.ts';
import type { ModelCallDeps } from './open-model-call.ts';
import { callParams, type PreparedCall, prepareLLMCall } from './request.ts';

/**
 * Makes one model call: emits the commit of `llm.start`, calls the `beforeLLMCall` hooks, emits the deltas, and completes with the commit of
 * `llm.done`. Errors with the `AgentLoopError` of the call. Unsubscribing aborts the request and the hooks.
 */
export function callModel(
  deps: ModelCallDeps,
  traceContext: Context,
): (state: LoopState, call: ModelCall) => Source<Signal> {
  const prepare = prepareLLMCall(deps, traceContext);
  return (before, { start, view }) =>
    new Source((to) => {
      const draft = new CommitDraft(deps.node, before);
      draft.add(start);
      const { after } = draft;
      to.next(draft.finish(false));
      if (to.closed) return;
      const request = (state: LoopState, call: PreparedCall) => {
        deps.hooks.lastCall = { iteration: state.iteration, params: call.params, historyLength: state.history.length };
        pipeInto<LLMChunk, CallSignal, CallSignal, Signal>(
          to,
          requestLLM(deps, call),
          catchLLMError(deps, call),
          tapLLMResponse(deps, call),
          mapLLMResponseToState(deps, state, traceContext),
        );
      };
      if (deps.hooks.lists.beforeLLMCall.length === 0 || !deps.hooks.isWanted('beforeLLMCall', after))
        return request(after, prepare(after, { view }));
      askBefore(deps, traceContext, { state: after, view, to, request });
    });
}

interface Asking {
  readonly state: LoopState;
  readonly view: ModelCall['view'];
  readonly to: Sink<Signal>;
  readonly request: (state: LoopState, call: PreparedCall) => void;
}

/** Calls the `beforeLLMCall` hooks, then makes the model call. */
function askBefore(deps: ModelCallDeps, traceContext: Context, { state, view, to, request }: Asking): void {
  const scope = deps.inbox.scope.child();
  let asked: AskedHook | undefined;
  to.add(() => {
    if (asked?.isOver === false) asked.leave(reasonToLeave(deps));
    scope.release();
  });
  const waitsFor = (question: AskedHook) => {
    asked = question;
  };
  const params = callParams(deps, state, { view, scope });
  const proceed = (changed: ChangedCall) => {
    if (to.closed) return;
    const used = stateWith(deps, state, { branches: changed.branches, to });
    if (!to.closed) request(used, prepareLLMCall(deps, traceContext)(used, { params, scope, changed }));
  };
  const changed = changeCall(deps, traceContext, waitsFor)(state, params);
  if (changed instanceof Promise) changed.then(proceed).catch((error: unknown) => to.error(error));
  else proceed(changed);
}

/** Records the usage of hooks' child turns before the model call: the call may fail, or the process may crash. */
function stateWith(
  deps: ModelCallDeps,
  state: LoopState,
  { branches, to }: Pick<ChangedCall, 'branches'> & Pick<Asking, 'to'>,
): LoopState {
  if (branches.length === 0) return state;
  const draft = new CommitDraft(deps.node, state);
  recordBranches(draft, branches);
  if (draft.steps.length > 0) to.next(draft.finish(false));
  return draft.after;
}

/**
 * Sends the request of a call to its provider, within the context of its span; uses `stream` if the provider has it. Emits the answer of an
 * extension instead, if there is one. Errors with `PROVIDER_TIMEOUT` after `modelSilenceMs` without a chunk. Unsubscribing leaves the request; the
 * signal of the call, which `tapLLMResponse` aborts, stops it.
 */
export function requestLLM(
  { segment: { config }, openModelCall }: ModelCallDeps,
  call: PreparedCall,
): Observable<LLMChunk> {
  return new Source((to) => {
    if (call.response) return emitResponse(call.response, to);
    const silence = config.modelSilenceMs > 0 ? new ModelSilence(config.clock, config.modelSilenceMs) : undefined;
    openModelCall.silence = silence;
    if (silence) call.params.silence = silence;
    activeContext.with(call.traceContext, subscribe, undefined, call.provider, call.params, to);
    if (to.closed || openModelCall.isAnswered) return;
    silence?.start((error) => {
      call.scope.abort(error);
      to.error(error);
    });
  });
}

function subscribe(provider: LLMProvider, params: CallParams, to: Sink<LLMChunk>): void {
  if (provider.stream && provider.capabilities?.streaming !== false) {
    const chunks = new DirectSubscriber<LLMChunk>(to);
    to.add(() => chunks.unsubscribe());
    provider.stream(params).subscribe(chunks);
    return;
  }
  provider.call(params).then(
    (response) => emitResponse(response, to),
    (error: unknown) => to.error(error),
  );
}

function emitResponse(response: LLMResponse, to: Sink<LLMChunk>): void {
  to.next({ type: 'done', response });
  to.complete();
}

import type { Context, Span } from '@opentelemetry/api';
import { leaveToAttempts } from '../../observability/spans/attempt-span.ts';
import { startLlmSpan } from '../../observability/spans/llm-span.ts';
import type { TracedSpan } from '../../observability/spans/tracing-options.ts';
import type { Message } from '../contracts/messages.ts';
import type { LLMCallParams, LLMProvider, LLMResponse } from '../contracts/provider.ts';
import { copySettings } from '../journal/call-settings.ts';
import type { LoopState } from '../journal/state.ts';
import type { AbortScope } from '../streams/abort-scope.ts';
import type { TurnDeps } from '../turn/turn-deps.ts';
import { CallParams } from './call-params.ts';
import type { ChangedCall } from './change-call.ts';
import type { PreparedView } from './prepare-view.ts';
import { messagesWith, viewOf } from './view.ts';

/** A model call that is ready to be made. */
export interface PreparedCall {
  readonly params: CallParams;
  /** Where extensions chose another than the turn's. */
  readonly provider?: LLMProvider | undefined;
  /** What extensions gave in place of an answer: no provider is called. */
  readonly response?: LLMResponse | undefined;
  readonly span: Span;
  readonly traceContext: Context;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  /** Aborted with the turn, and when the call is left before its end. */
  readonly scope: AbortScope;
}

/** A call that extensions made something of: what they were shown, and what they changed. */
export interface ShownCall {
  readonly params: CallParams;
  readonly scope: AbortScope;
  readonly changed: ChangedCall;
}

/**
 * Makes the call of a state: the view of its history with the system prompt injected, the tools, the model's settings, and the
 * `llm.call` span below `traceContext`.
 */
export function prepareLLMCall(
  deps: TurnDeps,
  traceContext: Context,
): (state: LoopState, from?: { readonly view?: PreparedView | undefined } | ShownCall) => PreparedCall {
  return (state, from = {}) => {
    const shown = 'changed' in from ? from : undefined;
    const scope = shown?.scope ?? deps.scope.child();
    const params = shown?.params ?? callParams(deps, state, { view: 'view' in from ? from.view : undefined, scope });
    const changed = shown?.changed;
    if (changed) Object.assign(params, changed.params);
    const provider = changed?.provider ?? deps.provider;
    const traced = startSpan(deps, { iteration: state.iteration, params, provider }, traceContext);
    params.traceContext = traced.traceContext;
    return {
      params,
      scope,
      span: traced.span,
      traceContext: traced.traceContext,
      startedAt: state.updatedAt,
      provider: changed?.provider,
      response: changed?.response,
    };
  };
}

/** One span for the call, unless its provider makes one for each request. */
function startSpan(
  { tracing, now }: TurnDeps,
  {
    iteration,
    params,
    provider,
  }: { readonly iteration: number; readonly params: LLMCallParams; readonly provider: LLMProvider },
  parent: Context,
): TracedSpan {
  if (provider.tracesAttempts === true) return leaveToAttempts({ tracing, iteration, now }, parent);
  return startLlmSpan(tracing, { iteration, params, info: provider.info }, parent);
}

export function callParams(
  deps: TurnDeps,
  state: LoopState,
  { view, scope }: { readonly view: PreparedView | undefined; readonly scope: AbortScope },
): CallParams {
  const params = new CallParams(messagesOf(deps, state, view), deps.turn.metadata, scope);
  copySettings(params, view?.settings ?? deps.config);
  if (!view) copySettings(params, state.changes.settings);
  const { offered } = view?.offer ?? deps.tools.after(state.changes.tools);
  if (offersTools(deps, state) && offered.length > 0) params.tools = offered;
  else if (params.toolChoice !== undefined) delete params.toolChoice;
  return params;
}

function messagesOf(deps: TurnDeps, state: LoopState, view: PreparedView | undefined): readonly Message[] {
  const { summary, history, changes } = state;
  if (view && view.systemPrompt === undefined && !summary) return view.messages;
  if (view) return messagesWith(view.systemPrompt, [...view.messages], summary);
  return viewOf(history, { systemPrompt: changes.settings.systemPrompt ?? deps.systemPrompt, summary });
}

function offersTools(deps: TurnDeps, state: LoopState): boolean {
  return !state.summary && deps.provider.capabilities?.tools !== false;
}

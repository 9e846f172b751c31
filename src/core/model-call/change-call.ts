import type { Context } from '@opentelemetry/api';
import {
  type CallChange,
  type CallSettings,
  type ChangedParams,
  checkChangedMessages,
  checkMessages,
  copySettings,
  type Extension,
  type IterationChange,
  type LLMCallParams,
  type LLMProvider,
  type LLMResponse,
  type Message,
  pairedMessages,
  type ResponseChange,
  settingsFlaw,
  shownValue,
} from '../contracts/index.ts';
import { askHooks } from '../hooks/ask-hooks.ts';
import { type AskedHook, draftPlace, type HookDeps, type HookPlace } from '../hooks/hook-context.ts';
import type { HookName } from '../hooks/hook-table.ts';
import type { UnrecordedBranch } from '../hooks/record-of-change.ts';
import { CommitDraft, callSettings, type ExtensionRecord, type LlmStart, type LoopState } from '../journal/index.ts';
import type { Offer } from '../tool-call/tool-set.ts';
import { CallParams } from './call-params.ts';
import type { ModelCallDeps } from './open-model-call.ts';
import { responseFlaw } from './response.ts';
import { instructionsOf, withoutInstructions } from './view.ts';

/** Extensions' changes of a model call. */
export interface ChangedCall {
  readonly params: ChangedParams;
  readonly provider: LLMProvider | undefined;
  readonly response: LLMResponse | undefined;
  /** Child turns of the hooks, whose usage the caller records. */
  readonly branches: readonly UnrecordedBranch[];
}

/**
 * Calls `beforeLLMCall` of the extensions; an extension that returns the answer is the last. `waitsFor` receives each hook that returned a promise.
 * Throws or rejects as `askHooks`.
 */
export function changeCall(
  deps: ModelCallDeps,
  traceContext: Context,
  waitsFor: (question: AskedHook) => void,
): (state: LoopState, params: LLMCallParams) => ChangedCall | Promise<ChangedCall> {
  return (state, params) => {
    let changed: ChangedCall = { params: {}, provider: undefined, response: undefined, branches: [] };
    const hook = 'beforeLLMCall';
    const asking = {
      hook,
      place: { state, traceContext },
      about: () => ({ params: withChange(params, changed), provider: changed.provider }),
      take(change: CallChange, { name: extension }: Extension) {
        changed = mergeChange(changed, change, (messages) => pairedByHook(deps, messages, { extension, hook }));
      },
      waiting: {
        asked: waitsFor,
        keep(branches: readonly UnrecordedBranch[]) {
          changed = { ...changed, branches: [...changed.branches, ...branches] };
        },
      },
    } as const;
    return askHooks(deps, asking, () => changed);
  };
}

function withChange(params: LLMCallParams, { params: change }: ChangedCall): LLMCallParams {
  return Object.keys(change).length === 0 ? params : CallParams.changed(params, change);
}

function mergeChange(
  before: ChangedCall,
  { params, provider, response }: CallChange,
  paired: (messages: readonly Message[]) => readonly Message[],
): ChangedCall {
  if (params) {
    if (typeof params !== 'object') throw new TypeError(`its params must be an object, not ${shownValue(params)}`);
    if (params.tools && !Array.isArray(params.tools)) throw new TypeError('its params.tools is not a list of tools');
    const flaw = settingsFlaw(params);
    if (flaw) throw new TypeError(flaw.join('; '));
    if (params.messages) checkMessages(params.messages);
  }
  if (provider && typeof provider.call !== 'function') throw new TypeError('its provider has no call(params) method');
  const flaw = response && responseFlaw(response);
  if (flaw) throw flaw;
  return {
    ...before,
    params: {
      ...before.params,
      ...params,
      ...(params?.messages && { messages: paired(params.messages) }),
    },
    provider: provider ?? before.provider,
    response: response ?? before.response,
  };
}

/** Extensions' changes of an answer, and their records. */
export interface ChangedResponse {
  readonly response: LLMResponse;
  readonly records: readonly ExtensionRecord[];
}

/** Calls `afterLLMCall` of the extensions, before the answer is recorded. Throws or rejects as `askHooks`. */
export function changeResponse(
  deps: ModelCallDeps,
  traceContext: Context,
  waitsFor: (question: AskedHook) => void,
): (state: LoopState, response: LLMResponse) => ChangedResponse | Promise<ChangedResponse> {
  return (state, given) => {
    let response = given;
    const records: ExtensionRecord[] = [];
    const place: HookPlace = { state, traceContext, add: (record) => records.push(record) };
    const take = ({ response: changed }: ResponseChange) => {
      const flaw = changed && responseFlaw(changed);
      if (flaw) throw flaw;
      response = changed ?? response;
    };
    const asking = { hook: 'afterLLMCall', place, about: () => response, take, waiting: { asked: waitsFor } } as const;
    return askHooks(deps, asking, () => ({ response, records }));
  };
}

/** The input of one model call after the extensions' changes. */
export interface PreparedView {
  readonly messages: readonly Message[];
  readonly systemPrompt: string | undefined;
  readonly offer: Offer;
  readonly settings: CallSettings;
}

/** A model call to make. `view`: the extensions' view, if any; else that of the state. */
export interface ModelCall {
  readonly start: LlmStart;
  readonly view?: PreparedView;
}

/** A view, and the records of its preparation. */
interface Preparation {
  readonly view: PreparedView;
  readonly draft: CommitDraft;
}

/** Calls `prepareIteration` of the extensions for the next model call. Synchronous if all of them are. Throws or rejects as `askHooks`. */
export function prepareView(
  deps: ModelCallDeps,
  traceContext: Context,
): (state: LoopState) => Preparation | Promise<Preparation> {
  return (state) => {
    const draft = new CommitDraft(deps.node, state);
    let view: PreparedView = firstView(deps, state);
    const about = () => {
      const { messages, systemPrompt, offer, settings } = view;
      return { messages, systemPrompt, tools: offer.offered, settings };
    };
    const take = ({ view: change }: IterationChange, { name: extension }: Extension) => {
      if (change) view = changedView(deps, view, { change, extension });
    };
    const asking = { hook: 'prepareIteration', place: draftPlace(draft, traceContext), about, take } as const;
    return askHooks(deps, asking, () => ({ view, draft }));
  };
}

function firstView(deps: ModelCallDeps, state: LoopState): PreparedView {
  const { history, changes } = state;
  return {
    messages: withoutInstructions(history),
    systemPrompt: instructionsOf(history, changes.settings.systemPrompt ?? deps.segment.config.systemPrompt),
    offer: deps.segment.tools.after(changes.tools),
    settings: callSettings(deps.segment.config, state),
  };
}

function changedView(
  deps: ModelCallDeps,
  before: PreparedView,
  { change, extension }: { readonly change: NonNullable<IterationChange['view']>; readonly extension: string },
): PreparedView {
  if (typeof change !== 'object') throw new TypeError(`its view must be an object, not ${shownValue(change)}`);
  const { messages, systemPrompt, tools, settings } = change;
  if (messages) checkChangedMessages(messages, before.messages);
  if (typeof systemPrompt !== 'string' && systemPrompt !== null && systemPrompt !== undefined) {
    throw new TypeError(`systemPrompt must be a string or null, not ${shownValue(systemPrompt)}`);
  }
  return {
    messages: messages ? pairedByHook(deps, messages, { extension, hook: 'prepareIteration' }) : before.messages,
    systemPrompt: systemPrompt === undefined ? before.systemPrompt : (systemPrompt ?? undefined),
    offer: tools ? deps.segment.tools.only(knownNames(deps, tools)) : before.offer,
    settings: settings ? changedSettings(before.settings, settings) : before.settings,
  };
}

function knownNames({ segment: { tools } }: ModelCallDeps, names: readonly string[]): readonly string[] {
  for (const name of names) {
    if (tools.byName.has(name)) continue;
    throw new TypeError(`there is no tool "${name}"; the turn knows: ${[...tools.byName.keys()].join(', ') || 'none'}`);
  }
  return names;
}

function changedSettings(before: CallSettings, settings: CallSettings): CallSettings {
  const flaw = settingsFlaw(settings);
  if (flaw) throw new TypeError(flaw.join('; '));
  const changed = { ...before };
  copySettings(changed, settings);
  return changed;
}

/**
 * The messages of a request after a hook changed them. If calls and results do not match, they are repaired, with a warning in the log.
 * Throws a `TypeError` if none are left.
 */
function pairedByHook(
  { segment: { config, turn } }: HookDeps,
  messages: readonly Message[],
  by: { readonly extension: string; readonly hook: HookName },
): readonly Message[] {
  const paired = pairedMessages(messages);
  if (paired.length === 0) {
    const what = messages.length === 0 ? 'no messages' : 'tool results only, without the calls that they answer';
    throw new TypeError(`it leaves ${what}: keep the assistant message with those calls, or a user message`);
  }
  if (paired !== messages) config.logger.warn('messages repaired', { taskId: turn.taskId, ...by });
  return paired;
}

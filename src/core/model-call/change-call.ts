import type { Context } from '@opentelemetry/api';
import { checkMessages } from '../contracts/check-messages.ts';
import { settingsFlaw } from '../contracts/check-settings.ts';
import type { CallChange } from '../contracts/extension.ts';
import type { LLMCallParams, LLMProvider, LLMResponse } from '../contracts/provider.ts';
import { shownValue } from '../contracts/shown-value.ts';
import { askHooks } from '../hooks/ask-hooks.ts';
import type { AskedHook } from '../hooks/hook-context.ts';
import { recordOfChange } from '../hooks/record-of-change.ts';
import type { ExtensionRecord } from '../journal/records.ts';
import type { LoopState } from '../journal/state.ts';
import type { TurnDeps } from '../turn/turn-deps.ts';
import { responseFlaw } from './response.ts';
import { pairedByHook } from './view.ts';

/** What extensions made of a model call. */
export interface ChangedCall {
  readonly params: Partial<LLMCallParams>;
  readonly provider: LLMProvider | undefined;
  readonly response: LLMResponse | undefined;
}

/** Asks the extensions about a model call; one that answers in its place is the last. `waitsFor` receives each question that is answered later. Throws or rejects as `askHooks`. */
export function changeCall(
  deps: TurnDeps,
  traceContext: Context,
  waitsFor: (question: AskedHook) => void,
): (state: LoopState, params: LLMCallParams) => ChangedCall | Promise<ChangedCall> {
  return (state, params) => {
    let changed: ChangedCall = { params: {}, provider: undefined, response: undefined };
    const asked = askHooks(deps, {
      hook: 'beforeLLMCall',
      place: { state, traceContext },
      about: () => ({ params: withChange(params, changed), provider: changed.provider }),
      asked: waitsFor,
      take(change, { name: extension }) {
        changed = behind(changed, change);
        const given = change.params?.messages;
        if (given) {
          const messages = pairedByHook(deps, given, { extension, hook: 'beforeLLMCall' });
          changed = { ...changed, params: { ...changed.params, messages } };
        }
        return changed.response === undefined;
      },
    });
    return asked instanceof Promise ? asked.then(() => changed) : changed;
  };
}

function withChange(params: LLMCallParams, { params: change }: ChangedCall): LLMCallParams {
  return Object.keys(change).length === 0 ? params : { ...params, ...change };
}

function behind(before: ChangedCall, { params, provider, response }: CallChange): ChangedCall {
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
    params: params ? { ...before.params, ...params } : before.params,
    provider: provider ?? before.provider,
    response: response ?? before.response,
  };
}

/** What extensions made of an answer, and what they recorded with it. */
export interface ChangedResponse {
  readonly response: LLMResponse;
  readonly records: readonly ExtensionRecord[];
}

/** Asks the extensions about the answer of a model, before it is recorded. Throws or rejects as `askHooks`. */
export function changeResponse(
  deps: TurnDeps,
  traceContext: Context,
  waitsFor: (question: AskedHook) => void,
): (state: LoopState, response: LLMResponse) => ChangedResponse | Promise<ChangedResponse> {
  return (state, given) => {
    let response = given;
    const records: ExtensionRecord[] = [];
    const asked = askHooks(deps, {
      hook: 'afterLLMCall',
      place: { state, traceContext },
      about: () => response,
      asked: waitsFor,
      take(change, { name }) {
        const flaw = change.response && responseFlaw(change.response);
        if (flaw) throw flaw;
        response = change.response ?? response;
        const { data, events } = change;
        const record = recordOfChange(
          { ...(data === undefined ? {} : { data }), ...(events && { events }) },
          { deps, state, name, hook: 'afterLLMCall' },
        );
        if (record) records.push(record);
        return true;
      },
    });
    return asked instanceof Promise ? asked.then(() => ({ response, records })) : { response, records };
  };
}

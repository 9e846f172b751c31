import type { Context } from '@opentelemetry/api';
import type { LLMResponse } from '../contracts/provider.ts';
import type { AskedHook, HookPlace } from '../hooks/hook-context.ts';
import { maxIterationsOf } from '../journal/call-settings.ts';
import type { LlmDone } from '../journal/records.ts';
import { CommitDraft } from '../journal/signals.ts';
import type { LoopState } from '../journal/state.ts';
import { leftReason } from '../ownership/child-turns.ts';
import { loadChecks } from '../tool-call/check-call.ts';
import { steeringRecords } from '../tool-call/replies.ts';
import { planFirstWave } from '../tool-call/tool-plan.ts';
import type { TurnDeps } from '../turn/turn-deps.ts';
import { type ChangedResponse, changeResponse } from './change-call.ts';
import { endWithResponse, recordOfResponse } from './response.ts';

/** The caller, which waits for what follows from an answer of the model. */
export interface Responder {
  /** Whether nobody waits any more. */
  readonly isOver: boolean;
  /** Receives each question that is answered later, to leave it where it is over before that. */
  waitsFor(question: AskedHook): void;
  /** Receives `llm.done` and what follows from it at once. */
  commit(draft: CommitDraft): void;
  fail(error: unknown): void;
}

export interface Answer {
  readonly response: LLMResponse;
  readonly to: Responder;
}

/**
 * Asks the extensions about an answer, loads what the checks of its calls need, and makes the append of `llm.done`: with the end of the turn,
 * or the intents of the first wave of tools. At once where neither waits.
 */
export function respond(deps: TurnDeps, place: HookPlace, { response, to }: Answer): void {
  if (deps.hooks.lists.afterLLMCall.length === 0) return load(deps, place, { response, records: unchanged, to });
  const changed = changeResponse(deps, place.traceContext, (question) => to.waitsFor(question))(place.state, response);
  if (changed instanceof Promise) resume(changed, (given) => load(deps, place, { ...given, to }), to);
  else load(deps, place, { ...changed, to });
}

/** Why a hook is not waited for any more. */
export function reasonToLeave({ scope, turn }: Pick<TurnDeps, 'scope' | 'turn'>): unknown {
  return scope.aborted ? scope.reason : leftReason(turn.taskId);
}

const unchanged: ChangedResponse['records'] = [];

function load(deps: TurnDeps, place: HookPlace, { response, records, to }: ChangedResponse & Answer): void {
  const record = recordOfResponse(place.state, response);
  const loading = loadChecks(deps, record.calls);
  if (loading) resume(loading, () => to.commit(draftOf(deps, place, { record, records })), to);
  else to.commit(draftOf(deps, place, { record, records }));
}

function resume<A>(promise: Promise<A>, next: (answer: A) => void, to: Responder): void {
  promise.then((answer) => to.isOver || next(answer)).catch((error: unknown) => to.fail(error));
}

function draftOf(
  deps: TurnDeps,
  { state, traceContext }: HookPlace,
  { record, records }: { readonly record: LlmDone; readonly records: ChangedResponse['records'] },
): CommitDraft {
  deps.openCall.close();
  const draft = new CommitDraft(deps, state);
  draft.add(record);
  for (const change of records) draft.add(change);
  if (record.calls.length > 0) {
    addFirstWave(deps, draft, traceContext);
  } else if (closesWithHooks(deps, draft.after)) {
    return draft;
  } else if (!deps.inbox.hasSteering || state.summary || state.iteration >= maxIterationsOf(deps, state)) {
    for (const told of steeringRecords(deps)) draft.add(told);
    draft.add(endWithResponse(deps, state, record));
    deps.inbox.close(draft.after);
  }
  return draft;
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
  draft.addAll(records);
}

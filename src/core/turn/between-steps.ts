import type { Context } from '@opentelemetry/api';
import {
  type CallSettings,
  copySettings,
  type EndChange,
  type Extension,
  textOf,
  waitingState,
} from '../contracts/index.ts';
import { askHooks } from '../hooks/ask-hooks.ts';
import { draftPlace } from '../hooks/hook-context.ts';
import type { AboutOf, StepHook } from '../hooks/hook-table.ts';
import { agentChange, jsonOf } from '../hooks/record-of-change.ts';
import {
  CommitDraft,
  callSettings,
  type Finish,
  type LoopState,
  openQuestions,
  type TurnDone,
  type TurnSuspended,
} from '../journal/index.ts';
import { type PauseRequest, steeringRecords } from '../ownership/inbox.ts';
import type { Run } from './run.ts';

export interface StepQuestion {
  readonly hook: StepHook;
  /** The end that the turn is about to record, if any. */
  readonly ending?: TurnDone | undefined;
}

/**
 * Calls the extensions between two steps, and returns their decisions as one atomic append. Synchronous if all of
 * them answer synchronously. Throws or rejects as `askHooks`.
 */
export function askBetweenSteps(
  deps: Run,
  traceContext: Context,
): (state: LoopState, question: StepQuestion) => CommitDraft | Promise<CommitDraft> {
  return (state, question) => {
    deps.hooks.noteAsked(question.hook, state);
    const draft = new CommitDraft(deps.node, state);
    const close = () => {
      const change = agentChange(deps, draft.after);
      if (change) draft.add(change);
      return draft;
    };
    return ask(deps, { draft, traceContext, close }, question);
  };
}

interface Decision {
  readonly draft: CommitDraft;
  readonly traceContext: Context;
  readonly close: () => CommitDraft;
}

/** Calls one hook; its changes are added to the draft. */
function ask(
  deps: Run,
  { draft, traceContext, close }: Decision,
  { hook, ending }: StepQuestion,
): CommitDraft | Promise<CommitDraft> {
  const place = draftPlace(draft, traceContext);
  switch (hook) {
    case 'beforeTurn':
      return askHooks(deps, { hook, place, about: () => ({}) }, close);
    case 'afterIteration':
      return askHooks(deps, { hook, place, about: (state) => stepOf(deps, state, ending) }, close);
    case 'beforeFinish':
      return askHooks(deps, { hook, place, about: (state) => finishOf(ending, state) }, close);
    case 'shouldPause': {
      const take = (pauses: boolean | { readonly reason: string }, { name }: Extension) => {
        if (pauses !== false) pause(deps, draft, pauses === true ? `paused by ${name}` : pauses.reason);
      };
      return askHooks(deps, { hook, place, about: () => ({}), take }, close);
    }
    case 'afterTurn': {
      deps.inbox.close(draft.after);
      for (const record of steeringRecords(deps.inbox, true)) draft.add(record);
      let last = ending;
      const end = () => {
        if (last) draft.add(last);
        return close();
      };
      const take = (change: EndChange, { name }: Extension) => {
        if (!last || (change.text === undefined && change.value === undefined)) return;
        last = changedEnd(last, change);
        const { type: _, ...finish } = last;
        draft.add({ type: `x.${name}`, effects: { finish }, hook });
      };
      return askHooks(deps, { hook, place, about: () => endOf(last), take }, end);
    }
    default:
      return hook satisfies never;
  }
}

/** Without a store the turn waits in this process for `Turn.resume`, which revokes the pause. */
function pause({ segment: { config }, inbox }: Run, draft: CommitDraft, reason: unknown): void {
  if (typeof reason !== 'string') throw new TypeError('it gave no reason; answer true, false or { reason }');
  if (!config.taskStateStore) inbox.requestPause(reason);
  else draft.add(suspension(draft.after, { reason, commands: [] }));
}

/** A finished iteration. `ending`: the end that the turn is about to record, if any. */
function stepOf(deps: Run, state: LoopState, ending: TurnDone | undefined): AboutOf<'afterIteration'> {
  const { iteration, lastResponse: response, closedCalls, availableTools } = state;
  const { lastCall } = deps.hooks;
  // Absent if another process made the call.
  const params = lastCall?.iteration === iteration ? lastCall.params : undefined;
  const settings: CallSettings = params ? {} : callSettings(deps.segment.config, state);
  if (params) copySettings(settings, params);
  return {
    text: textOf(response?.message.content),
    response,
    calls: response?.calls.map((each) => ({ ...each, toolName: each.call.function.name })) ?? [],
    results: closedCalls.flatMap(({ call, intent, result }) => {
      if (!result) return [];
      return { ...result, toolName: call.function.name, arguments: intent ? intent.arguments : result.arguments };
    }),
    settings,
    offered: params ? (params.tools?.map((tool) => tool.function) ?? []) : availableTools,
    finished: ending !== undefined,
    finish: ending && finishOf(ending, state),
  };
}

/** The end that the turn is about to record; an earlier hook may have changed it. */
function finishOf(ending: TurnDone | undefined, { changes }: LoopState): Required<Finish> {
  const { text = '', value, reason = 'stop' } = { ...ending, ...changes.finish };
  return { text, value, reason };
}

function endOf(ending: TurnDone | undefined): AboutOf<'afterTurn'> {
  const { text = '', value, reason = 'stop' } = ending ?? {};
  return { outcome: { state: 'completed', reason, error: undefined }, text, value };
}

function changedEnd(ending: TurnDone, { text, value }: EndChange): TurnDone {
  if (text !== undefined && typeof text !== 'string') throw new TypeError('text must be a string');
  return {
    ...ending,
    ...(text === undefined ? {} : { text }),
    ...(value === undefined ? {} : { value: jsonOf('value', value) }),
  };
}

/** The record that suspends a turn. `waitsHere`: the turn has no store, so it waits in this process for `Turn.resume`. */
export function suspension(state: LoopState, { reason, commands }: PauseRequest, waitsHere = false): TurnSuspended {
  const questions = openQuestions(state);
  const record = {
    type: 'turn.suspended' as const,
    state: waitingState(questions),
    reason,
    questions,
    ...(waitsHere && { hold: {} }),
  };
  return commands.length === 0 ? record : { ...record, commands };
}

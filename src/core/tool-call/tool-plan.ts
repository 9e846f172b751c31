import type { ToolCall } from '../contracts/messages.ts';
import { toolError } from '../contracts/tool-errors.ts';
import type { AgentUsage } from '../contracts/usage.ts';
import type { ToolIntent, ToolResultRecord, TurnAsked } from '../journal/records.ts';
import type { GivenAnswer, LoopState, PendingToolCall } from '../journal/state.ts';
import type { TurnDeps } from '../turn/turn-deps.ts';
import type { CallPlace } from './change-tool-call.ts';
import { checkCall, rejected } from './check-call.ts';
import { unknownOutcome } from './in-doubt.ts';
import { approvalOf, askApproval, callsToApprove, mayAsk } from './tool-approval.ts';
import { answeredCall, type CheckedCall, refusedCall } from './tool-results.ts';

export type PlannedRecord = ToolIntent | ToolResultRecord | TurnAsked;

/** A call with an intent of this run. Its intent is stamped when it is committed. */
export interface StartedCall {
  readonly callId: string;
  readonly call: ToolCall;
  readonly intent: ToolIntent;
  /** What it was answered before. */
  readonly answers: readonly GivenAnswer[];
  /** What its child turn had used when it asked last. */
  readonly childUsage: readonly AgentUsage[];
}

/** The calls that run, are being checked, or are in doubt. */
export type BusyCalls = Pick<ReadonlySet<string>, 'has'>;

type BatchPlace = Omit<CallPlace, 'pending'>;

const noneBusy: BusyCalls = new Set<string>();

/**
 * What is written of the calls of a response in one append with it: as the batch would, at most `toolConcurrency` intents in call
 * order, a `sequential` tool only alone, results of calls that may not run, and all questions whether calls may run.
 */
export function planFirstWave(deps: TurnDeps, { state, traceContext }: BatchPlace): readonly PlannedRecord[] {
  const { records, mayStart } = planWithoutPlace(deps, { state, traceContext }, noneBusy);
  if (!mayStart) return records;
  const planned = [...records];
  let free = deps.config.toolConcurrency;
  const { calls } = state;
  for (let index = 0; index < calls.length; index++) {
    const pending = calls.at(index) as PendingToolCall;
    const decided = decideCall(deps, { pending, state, traceContext });
    if (!decided) continue;
    if (!(decided instanceof Promise)) {
      const alone = decided.type === 'tool.intent' && isSequential(deps, pending.call);
      if (alone && free < deps.config.toolConcurrency) break;
      planned.push(decided);
      if (alone) break;
      if (decided.type === 'tool.result') continue;
    }
    free--;
    if (free === 0) break;
  }
  return planned;
}

/**
 * Decides about a call that has a place: it starts with an intent, has a result without running, or is being checked. Undefined where it
 * waits for an approval; the question is part of `planWithoutPlace`.
 */
export function decideCall(
  deps: TurnDeps,
  place: CallPlace,
): ToolIntent | ToolResultRecord | Promise<unknown> | undefined {
  const { pending } = place;
  const checked = checkOnce(deps, place);
  if (checked instanceof Promise) return checked;
  if (checked.verdict !== 'run' || isRejected(pending, checked.arguments)) return resultInPlace(pending, checked);
  if (checked.ask && !approvalOf(pending, checked.arguments)) return undefined;
  return intentOf(deps, pending, checked);
}

/** Whether a call runs alone. */
export function isSequential({ tools }: TurnDeps, { function: { name } }: ToolCall): boolean {
  return tools.byName.get(name)?.definition.sequential === true;
}

/** A check of a call that has not answered yet. */
export interface RunningCheck {
  readonly pending: PendingToolCall;
  readonly done: Promise<unknown>;
}

/** What is written of the calls that wait for no place. */
export interface PlanWithoutPlace {
  readonly records: readonly PlannedRecord[];
  /** Checks that say whether somebody has to be asked; plan again when they are done. */
  readonly checks: readonly RunningCheck[];
  /** Whether calls that have a place may start. */
  readonly mayStart: boolean;
}

const nothing: PlanWithoutPlace = { records: [], checks: [], mayStart: true };

/**
 * What needs no place: all questions whether calls may run are asked at once; a call for which an extension fails the turn has its
 * result at once; where an extension finishes the turn, calls that have not started are skipped. No call starts where the turn fails
 * or finishes, is asked to pause, drains or is cancelled.
 */
export function planWithoutPlace(deps: TurnDeps, place: BatchPlace, busy: BusyCalls): PlanWithoutPlace {
  const { state } = place;
  const held = deps.inbox.pause !== undefined || deps.scope.aborted || deps.drain.aborted;
  const { finish } = state.changes;
  const asked = held || finish !== undefined ? nothing : planQuestions(deps, place, busy);
  const fatal = deps.hooks.failure && !deps.scope.aborted ? failing(deps, state, busy) : [];
  if (fatal.length > 0) return { records: fatal, checks: [], mayStart: false };
  if (held) return { ...nothing, mayStart: false };
  return finish ? { records: skipped(state, busy), checks: [], mayStart: false } : asked;
}

/** The questions whether calls may run, and the checks that have not said yet whether to ask. */
function planQuestions(deps: TurnDeps, place: BatchPlace, busy: BusyCalls): PlanWithoutPlace {
  if (!mayAsk(deps)) return nothing;
  const records: PlannedRecord[] = [];
  const checks: RunningCheck[] = [];
  for (const pending of callsToApprove(deps, place.state, busy)) {
    const checked = checkOnce(deps, { pending, ...place });
    if (checked instanceof Promise) checks.push({ pending, done: checked });
    else if (checked.verdict === 'run' && checked.ask && !approvalOf(pending, checked.arguments))
      records.push(askApproval(pending, checked.arguments, checked.ask.prompt));
  }
  return { records, checks, mayStart: true };
}

/** The result of a call that does not run: an extension answered it, it is not in order, or whoever was asked said no. */
function resultInPlace(pending: PendingToolCall, checked: CheckedCall): ToolResultRecord {
  const { callId } = pending;
  switch (checked.verdict) {
    case 'answered':
      return answeredCall(checked.answer, { callId, durationMs: 0, arguments: checked.arguments });
    case 'refused':
      return refusedResult(callId, checked);
    case 'run': {
      const { reason } = approvalOf(pending, checked.arguments) ?? {};
      return refusedCall(callId, rejected(reason));
    }
  }
}

function refusedResult(
  callId: string,
  { error, arguments: args, fails }: Extract<CheckedCall, { verdict: 'refused' }>,
): ToolResultRecord {
  const refused = refusedCall(callId, error, { arguments: args });
  return fails ? { ...refused, fails } : refused;
}

/** Calls for which an extension fails the turn. They wait for no place. */
function failing(deps: TurnDeps, { pendingToolCalls }: LoopState, busy: BusyCalls): readonly ToolResultRecord[] {
  return pendingToolCalls.flatMap(({ callId, call, result }) => {
    const checked = result || busy.has(callId) ? undefined : deps.callNotes.of(call).checked;
    if (!checked || checked instanceof Promise || checked.verdict !== 'refused' || !checked.fails) return [];
    return [refusedResult(callId, checked)];
  });
}

/** Calls that have not started when an extension finishes the turn; one that a dead process had started may have taken effect. */
function skipped({ pendingToolCalls }: LoopState, busy: BusyCalls): readonly ToolResultRecord[] {
  return pendingToolCalls
    .filter(({ callId, result }) => !result && !busy.has(callId))
    .map((pending) => {
      if (pending.intent) return unknownOutcome(pending);
      return refusedCall(pending.callId, toolError('skipped'));
    });
}

/** Checks a call; a check that is asynchronous, or that somebody decides, is made once and its answer kept for the next plan. */
function checkOnce(deps: TurnDeps, place: CallPlace): CheckedCall | Promise<unknown> {
  const { call } = place.pending;
  const known = deps.callNotes.of(call).checked;
  if (known) return known;
  const checked = checkCall(deps, place);
  if (!(checked instanceof Promise)) {
    if (mayAsk(deps) || deps.hooks.lists.beforeToolCall.length > 0) deps.callNotes.add(call, { checked });
    return checked;
  }
  const done = checked.then((answer) => deps.callNotes.add(call, { checked: answer }));
  deps.callNotes.add(call, { checked: done });
  return done;
}

function isRejected(pending: PendingToolCall, args: unknown): boolean {
  return pending.answers.length > 0 && approvalOf(pending, args)?.approved === false;
}

function intentOf(
  { turn }: TurnDeps,
  { callId, attempts }: PendingToolCall,
  { tool, arguments: args }: Extract<CheckedCall, { verdict: 'run' }>,
): ToolIntent {
  const intent = { type: 'tool.intent' as const, callId, attempt: attempts + 1, arguments: args };
  const child = tool.definition.childTurn?.({ arguments: args, idempotencyKey: `${turn.taskId}:${callId}` });
  return child ? { ...intent, child } : intent;
}

export function startedCall({ callId, call, answers, childUsage }: PendingToolCall, intent: ToolIntent): StartedCall {
  return { callId, call, intent, answers, childUsage };
}

/** The calls without a result or a question, by index, in call order; first those that a process has started, this one or another. */
export function openCalls({ calls }: LoopState): readonly number[] {
  const started: number[] = [];
  const others: number[] = [];
  for (let index = 0; index < calls.length; index++) {
    const { intent, question, result } = calls.at(index) as PendingToolCall;
    if (!result && !question) (intent ? started : others).push(index);
  }
  return others.length === 0 ? started : [...started, ...others];
}

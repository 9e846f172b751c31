import type { Context } from '@opentelemetry/api';
import { type CallPlace, type CheckedCall, checkCall, rejected } from './check-call.ts';
import { unknownOutcome } from './in-doubt.ts';
import type { ToolCall } from './messages.ts';
import type { ToolIntent, ToolResultRecord, TurnAsked } from './records.ts';
import type { GivenAnswer, LoopState, PendingToolCall } from './state.ts';
import { approvalOf, askApproval, callsToApprove, mayAsk } from './tool-approval.ts';
import { answeredCall, refusedCall } from './tool-results.ts';
import type { TurnDeps } from './turn-deps.ts';

/** Who holds the places of a batch. */
export interface Places {
  /** Calls that run, or whose arguments are being checked. */
  readonly busy: ReadonlySet<string>;
  /** Whether one of them runs alone. */
  readonly alone: boolean;
  /** The index of the first call that may still want a place. */
  readonly from: number;
}

interface RunningCheck {
  readonly pending: PendingToolCall;
  readonly done: Promise<unknown>;
}

/** What comes next in a batch: intents of calls that have a place, results of those that may not run, questions. */
export interface Plan {
  readonly records: readonly PlannedRecord[];
  /** The calls that got a place, as they are behind their intents. */
  readonly starts: readonly StartedCall[];
  /** Whether the call that got a place runs alone. */
  readonly alone: boolean;
  /** Calls whose arguments are being checked; plan again when they are. */
  readonly checks: readonly RunningCheck[];
  /** Where the next plan goes on. */
  readonly next: number;
}

export type PlannedRecord = ToolIntent | ToolResultRecord | TurnAsked;

/** A call with an intent of this run. Its intent is stamped when it is committed. */
export interface StartedCall {
  readonly callId: string;
  readonly call: ToolCall;
  readonly intent: ToolIntent;
  /** What it was answered before. */
  readonly answers: readonly GivenAnswer[];
}

const everyPlace: Places = { busy: new Set(), alone: false, from: 0 };

/**
 * Gives free places to the calls of the open batch, in call order: at most `toolConcurrency` at a time, a `sequential` tool
 * only alone, none while the turn is asked to pause, drains or is cancelled. A call of an unknown tool or with wrong arguments takes no
 * place: its error result is part of the plan. What has to be approved is asked at once, whatever places there are.
 */
export function planStarts(
  deps: TurnDeps,
  { state, traceContext }: { readonly state: LoopState; readonly traceContext: Context },
  places: Places = everyPlace,
): Plan {
  const records: PlannedRecord[] = [];
  const starts: StartedCall[] = [];
  const checks: RunningCheck[] = [];
  const { toolConcurrency } = deps.config;
  const held = deps.inbox.pause !== undefined || deps.scope.aborted || deps.drain.aborted;
  const { finish } = state.changes;
  const asksNobody = held || finish !== undefined;
  const planned = { busy: places.busy, records, checks };
  const asked = asksNobody ? noneAsked : planQuestions(deps, { state, traceContext }, planned);
  const fatal = deps.hooks.failure && !deps.scope.aborted ? failing(deps, state, places.busy) : [];
  if (fatal.length > 0) return { ...nothing, records: fatal, next: places.from };
  if (finish)
    return { ...nothing, records: held ? [] : skipped(state, places.busy), next: state.pendingToolCalls.length };
  let free = held || places.alone ? 0 : toolConcurrency - places.busy.size - checks.length;
  let alone = false;
  let next = places.from;
  for (; free > 0 && !alone; next++) {
    const pending = state.pendingToolCalls[next];
    if (pending === undefined) break;
    if (pending.result || pending.question || pending.intent?.epoch === deps.epoch) continue;
    if (places.busy.has(pending.callId) || asked.has(pending.callId)) continue;
    const checked = checkOnce(deps, { pending, state, traceContext });
    if (checked instanceof Promise) {
      checks.push({ pending, done: checked });
      free--;
    } else if (checked.verdict !== 'run' || isRejected(pending, checked.arguments)) {
      records.push(resultInPlace(pending, checked));
    } else {
      alone = checked.tool.definition.sequential === true;
      if (alone && free < toolConcurrency) return { records, starts, alone: false, checks, next };
      const intent = intentOf(pending, checked.arguments);
      records.push(intent);
      starts.push({ callId: pending.callId, call: pending.call, intent, answers: pending.answers });
      free--;
    }
  }
  return { records, starts, alone, checks, next };
}

const noneAsked: ReadonlySet<string> = new Set();

interface Planned {
  readonly busy: ReadonlySet<string>;
  readonly records: PlannedRecord[];
  readonly checks: RunningCheck[];
}

/** Adds the questions whether calls may run to a plan; gives the calls that wait for them, or for their checks. */
function planQuestions(
  deps: TurnDeps,
  place: { readonly state: LoopState; readonly traceContext: Context },
  { busy, records, checks }: Planned,
): ReadonlySet<string> {
  if (!mayAsk(deps)) return noneAsked;
  const asked = new Set<string>();
  for (const pending of callsToApprove(deps, place.state, busy)) {
    const checked = checkOnce(deps, { pending, ...place });
    if (checked instanceof Promise) checks.push({ pending, done: checked });
    else if (checked.verdict === 'run' && checked.ask && !approvalOf(pending, checked.arguments))
      records.push(askApproval(pending, checked.arguments, checked.ask.prompt));
    else continue;
    asked.add(pending.callId);
  }
  return asked;
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
      return refusedCall(callId, { code: 'TOOL_REJECTED', message: rejected(reason) });
    }
  }
}

function refusedResult(
  callId: string,
  { code, message, arguments: args, fails }: Extract<CheckedCall, { verdict: 'refused' }>,
): ToolResultRecord {
  const refused = refusedCall(callId, { code, message, arguments: args });
  return fails ? { ...refused, fails } : refused;
}

/** Calls for which an extension fails the turn. They wait for no place. */
function failing(
  deps: TurnDeps,
  { pendingToolCalls }: LoopState,
  busy: ReadonlySet<string>,
): readonly ToolResultRecord[] {
  return pendingToolCalls.flatMap(({ callId, call, result }) => {
    const checked = result || busy.has(callId) ? undefined : deps.checks.get(call);
    if (!checked || checked instanceof Promise || checked.verdict !== 'refused' || !checked.fails) return [];
    return [refusedResult(callId, checked)];
  });
}

const nothing: Plan = { records: [], starts: [], alone: false, checks: [], next: 0 };

/** Calls that have not started when an extension finishes the turn; one that a dead process had started may have taken effect. */
function skipped({ pendingToolCalls }: LoopState, busy: ReadonlySet<string>): readonly ToolResultRecord[] {
  return pendingToolCalls
    .filter(({ callId, result }) => !result && !busy.has(callId))
    .map((pending) => {
      if (pending.intent) return unknownOutcome(pending);
      return refusedCall(pending.callId, { code: 'TOOL_SKIPPED', message: 'skipped: the turn finished' });
    });
}

/** Checks a call; a check that is asynchronous, or that somebody decides, is made once and its answer kept for the next plan. */
function checkOnce(deps: TurnDeps, place: CallPlace): CheckedCall | Promise<unknown> {
  const { call } = place.pending;
  const known = deps.checks.get(call);
  if (known) return known;
  const checked = checkCall(deps, place);
  if (!(checked instanceof Promise)) {
    if (mayAsk(deps) || deps.hooks.lists.beforeToolCall.length > 0) deps.checks.set(call, checked);
    return checked;
  }
  const done = checked.then((answer) => deps.checks.set(call, answer));
  deps.checks.set(call, done);
  return done;
}

function isRejected(pending: PendingToolCall, args: unknown): boolean {
  return pending.answers.length > 0 && approvalOf(pending, args)?.approved === false;
}

function intentOf(pending: PendingToolCall, value: unknown): ToolIntent {
  return {
    type: 'tool.intent',
    callId: pending.callId,
    attempt: pending.attempts + 1,
    arguments: value,
  };
}

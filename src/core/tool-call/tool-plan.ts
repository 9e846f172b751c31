import { AgentLoopError, type AgentUsage, type ToolCall, toolError } from '../contracts/index.ts';
import { recordBranches } from '../hooks/record-of-change.ts';
import type {
  CommitDraft,
  ExtensionRecord,
  GivenAnswer,
  LoopState,
  PendingToolCall,
  ToolIntent,
  ToolResultRecord,
  TurnAnswered,
  TurnAsked,
} from '../journal/index.ts';
import { approvalOf, askApproval, type CallPlace, callsToApprove, mayAsk } from './ask-call.ts';
import { checkOnce, rejected } from './check-call.ts';
import { unknownOutcome } from './doubt.ts';
import { type AllowedCall, answeredCall, type CheckedCall, refusedCall, type ToolCallDeps } from './tool-results.ts';

export type PlannedRecord = ToolIntent | ToolResultRecord | TurnAsked;

/** A call with an intent of this run. */
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
type BusyCalls = Pick<ReadonlySet<string>, 'has'>;

type BatchPlace = Omit<CallPlace, 'pending'>;

const noneBusy: BusyCalls = new Set<string>();

/**
 * What is written of the calls of a response in one append with it: as the batch would, at most `toolConcurrency` intents in call
 * order, a `sequential` tool only alone, results of calls that may not run, and all questions whether calls may run.
 */
export function planFirstWave(deps: ToolCallDeps, { state, traceContext }: BatchPlace): readonly PlannedRecord[] {
  const { records, mayStart } = planWithoutPlace(deps, { state, traceContext }, noneBusy);
  if (!mayStart) return records;
  const planned = [...records];
  let free = deps.config.toolConcurrency;
  const { pendingToolCalls: calls } = state;
  for (let index = 0; index < calls.length; index++) {
    const pending = calls[index] as PendingToolCall;
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
  deps: ToolCallDeps,
  place: CallPlace,
): ToolIntent | ToolResultRecord | Promise<unknown> | undefined {
  const { pending } = place;
  const checked = checkOnce(deps, place);
  if (checked instanceof Promise) return checked;
  if (checked.verdict !== 'run') return resultOf(pending.callId, checked);
  const approval = pending.answers.length > 0 ? approvalOf(pending, checked.arguments) : undefined;
  if (approval?.approved === false) return refusedCall(pending.callId, rejected(approval.reason));
  return checked.ask && !approval ? undefined : intentOf(deps, pending, checked);
}

/** Whether a call runs alone. */
export function isSequential({ tools }: ToolCallDeps, { function: { name } }: ToolCall): boolean {
  return tools.byName.get(name)?.definition.sequential === true;
}

/** A check of a call that has not answered yet. */
interface RunningCheck {
  readonly pending: PendingToolCall;
  readonly done: Promise<unknown>;
}

/** What is written of the calls that wait for no place. */
interface PlanWithoutPlace {
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
export function planWithoutPlace(deps: ToolCallDeps, place: BatchPlace, busy: BusyCalls): PlanWithoutPlace {
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
function planQuestions(deps: ToolCallDeps, place: BatchPlace, busy: BusyCalls): PlanWithoutPlace {
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

/** The result of a call that does not run: an extension answered it, or it is not in order. */
function resultOf(callId: string, checked: Exclude<CheckedCall, AllowedCall>): ToolResultRecord {
  const { arguments: args } = checked;
  if (checked.verdict === 'answered') return answeredCall(checked.answer, { callId, durationMs: 0, arguments: args });
  const refused = refusedCall(callId, checked.error, { arguments: args });
  return checked.fails ? { ...refused, fails: checked.fails } : refused;
}

/** Calls for which an extension fails the turn. They wait for no place. */
function failing(deps: ToolCallDeps, { pendingToolCalls }: LoopState, busy: BusyCalls): readonly ToolResultRecord[] {
  return pendingToolCalls.flatMap(({ callId, call, result }) => {
    const checked = result || busy.has(callId) ? undefined : deps.unstartedCalls.of(call).checked;
    if (!checked || checked instanceof Promise || checked.verdict !== 'refused' || !checked.fails) return [];
    return [resultOf(callId, checked)];
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

function intentOf(
  { turn }: ToolCallDeps,
  { callId, attempts }: PendingToolCall,
  { tool, arguments: args }: AllowedCall,
): ToolIntent {
  const intent = { type: 'tool.intent' as const, callId, attempt: attempts + 1, arguments: args };
  const child = tool.definition.childTurn?.({ arguments: args, idempotencyKey: `${turn.taskId}:${callId}` });
  return child ? { ...intent, child } : intent;
}

/** Whether a call has an intent. */
export function isStarted(pending: PendingToolCall): pending is PendingToolCall & StartedCall {
  return pending.intent !== undefined;
}

/** The calls without a result or a question, by index, in call order; first those that a process has started, this one or another. */
export function openCalls({ pendingToolCalls: calls }: LoopState): readonly number[] {
  const started: number[] = [];
  const others: number[] = [];
  for (let index = 0; index < calls.length; index++) {
    const { intent, question, result } = calls[index] as PendingToolCall;
    if (!result && !question) (intent ? started : others).push(index);
  }
  return others.length === 0 ? started : [...started, ...others];
}

/** Records what child turns of the hooks used that were asked about the call of a record, before that record. */
export function recordBranchesOf(
  { unstartedCalls }: ToolCallDeps,
  draft: CommitDraft,
  record: PlannedRecord | TurnAnswered | ExtensionRecord,
): void {
  const callId = record.type === 'turn.asked' ? record.question.callId : record.callId;
  if (callId !== undefined) recordBranches(draft, unstartedCalls.takeBranches(callId));
}

/** Errors with `MISSING_TOOL` where an open call names a tool that was offered before and is not there any more. */
export function checkToolsOfOpenCalls(deps: Pick<ToolCallDeps, 'tools'>, state: LoopState): void {
  for (const { call, result } of state.pendingToolCalls) {
    const { name } = call.function;
    if (result || deps.tools.byName.has(name) || !state.availableTools.some((tool) => tool.name === name)) continue;
    throw new AgentLoopError(
      'MISSING_TOOL',
      `The turn has an open call of the tool "${name}", which no tool provider offers any more; add it and resume again.`,
      { taskId: state.turn.taskId },
    );
  }
  for (const name of state.changes.tools?.added ?? []) {
    if (deps.tools.byName.has(name)) continue;
    const message = `An extension added the tool "${name}" to the turn, and no tool provider has it; give it to toolProviders, with hidden: true, and resume again.`;
    throw new AgentLoopError('MISSING_TOOL', message, { taskId: state.turn.taskId });
  }
}

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
import { approvalOf, askApproval, type CallPlace, callsToApprove, mayAsk } from './call-hooks.ts';
import { checkOnce, rejected } from './check-call.ts';
import { unknownOutcome } from './doubt.ts';
import { type AllowedCall, answeredCall, type CheckedCall, refusedCall, type ToolCallDeps } from './tool-results.ts';
import type { ToolSet } from './tool-set.ts';

export type PlannedRecord = ToolIntent | ToolResultRecord | TurnAsked;

/** A call with an intent of this run. */
export interface StartedCall {
  readonly callId: string;
  readonly call: ToolCall;
  readonly intent: ToolIntent;
  /** Answers to its earlier questions, in the order they were asked. */
  readonly answers: readonly GivenAnswer[];
  /** The usage of its child turn up to its last question. */
  readonly childUsage: readonly AgentUsage[];
}

/** The calls that run, are being checked, or are in doubt. */
type BusyCalls = Pick<ReadonlySet<string>, 'has'>;

type BatchPlace = Omit<CallPlace, 'pending'>;

const noneBusy: BusyCalls = new Set<string>();

/**
 * Plans the records that are in one append with a response, by the same rules as the batch: at most `toolConcurrency` intents in call
 * order, a `sequential` tool only alone, the results of calls that may not run, and all approval questions.
 */
export function planFirstWave(deps: ToolCallDeps, { state, traceContext }: BatchPlace): readonly PlannedRecord[] {
  const { records, mayStart } = planWithoutSlot(deps, { state, traceContext }, noneBusy);
  if (!mayStart) return records;
  const planned = [...records];
  let free = deps.segment.config.toolConcurrency;
  const { pendingToolCalls: calls } = state;
  for (let index = 0; index < calls.length; index++) {
    const pending = calls[index] as PendingToolCall;
    const decided = decideCall(deps, { pending, state, traceContext });
    if (!decided) continue;
    if (!(decided instanceof Promise)) {
      const alone = decided.type === 'tool.intent' && isSequential(deps, pending.call);
      if (alone && free < deps.segment.config.toolConcurrency) break;
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
 * Decides a call that holds a slot. Returns the intent with which it starts, a result without running, or the promise of its check. Undefined
 * if it waits for an approval, whose question `planWithoutSlot` plans.
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
export function isSequential({ segment: { tools } }: ToolCallDeps, { function: { name } }: ToolCall): boolean {
  return tools.byName.get(name)?.definition.sequential === true;
}

/** The running check of a call. */
interface RunningCheck {
  readonly pending: PendingToolCall;
  readonly done: Promise<unknown>;
}

/** The records of calls that need no slot. */
interface PlanWithoutSlot {
  readonly records: readonly PlannedRecord[];
  /** Checks that decide whether an approval is needed; plan again when they end. */
  readonly checks: readonly RunningCheck[];
  /** Whether calls that hold a slot may start. */
  readonly mayStart: boolean;
}

const nothing: PlanWithoutSlot = { records: [], checks: [], mayStart: true };

/**
 * Plans what needs no slot: all approval questions, the results of calls for which an extension fails the turn, and, if an extension
 * finishes the turn, skipped results for calls that have not started. No call may start if the turn fails, finishes, drains, is cancelled or
 * shall pause.
 */
export function planWithoutSlot(deps: ToolCallDeps, place: BatchPlace, busy: BusyCalls): PlanWithoutSlot {
  const { state } = place;
  const held = deps.inbox.pause !== undefined || deps.inbox.scope.aborted || deps.inbox.drain.aborted;
  const { finish } = state.changes;
  const asked = held || finish !== undefined ? nothing : planQuestions(deps, place, busy);
  const fatal = deps.hooks.failure && !deps.inbox.scope.aborted ? failingCalls(deps, state, busy) : [];
  if (fatal.length > 0) return { records: fatal, checks: [], mayStart: false };
  if (held) return { ...nothing, mayStart: false };
  return finish ? { records: skippedCalls(state, busy), checks: [], mayStart: false } : asked;
}

/** The approval questions, and the running checks that decide whether to ask. */
function planQuestions(deps: ToolCallDeps, place: BatchPlace, busy: BusyCalls): PlanWithoutSlot {
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

/** The result of a call that does not run: an extension answered it, or it was refused. */
function resultOf(callId: string, checked: Exclude<CheckedCall, AllowedCall>): ToolResultRecord {
  const { arguments: args } = checked;
  if (checked.verdict === 'answered') return answeredCall(checked.answer, { callId, durationMs: 0, arguments: args });
  const refused = refusedCall(callId, checked.error, { arguments: args });
  return checked.fails ? { ...refused, fails: checked.fails } : refused;
}

/** Results of calls for which an extension fails the turn. */
function failingCalls(
  deps: ToolCallDeps,
  { pendingToolCalls }: LoopState,
  busy: BusyCalls,
): readonly ToolResultRecord[] {
  return pendingToolCalls.flatMap(({ callId, call, result }) => {
    const checked = result || busy.has(callId) ? undefined : deps.unstartedCalls.of(call).checked;
    if (!checked || checked instanceof Promise || checked.verdict !== 'refused' || !checked.fails) return [];
    return [resultOf(callId, checked)];
  });
}

/** Results of calls that have not started when an extension finishes the turn. A call that a crashed process started may have taken effect. */
function skippedCalls({ pendingToolCalls }: LoopState, busy: BusyCalls): readonly ToolResultRecord[] {
  return pendingToolCalls
    .filter(({ callId, result }) => !result && !busy.has(callId))
    .map((pending) => {
      if (pending.intent) return unknownOutcome(pending);
      return refusedCall(pending.callId, toolError('skipped'));
    });
}

function intentOf(
  { segment: { turn } }: ToolCallDeps,
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

/** The indexes of calls without a result or a question: first those with an intent, then the others, each in call order. */
export function openToolCallIndexes({ pendingToolCalls: calls }: LoopState): readonly number[] {
  const started: number[] = [];
  const others: number[] = [];
  for (let index = 0; index < calls.length; index++) {
    const { intent, question, result } = calls[index] as PendingToolCall;
    if (!result && !question) (intent ? started : others).push(index);
  }
  return others.length === 0 ? started : [...started, ...others];
}

/** Records the usage of hooks' child turns for a call; call it before the record of that call is added. */
export function recordBranchesOf(
  { unstartedCalls }: ToolCallDeps,
  draft: CommitDraft,
  record: PlannedRecord | TurnAnswered | ExtensionRecord,
): void {
  const callId = record.type === 'turn.asked' ? record.question.callId : record.callId;
  if (callId !== undefined) recordBranches(draft, unstartedCalls.takeBranches(callId));
}

/** Throws `MISSING_TOOL` if the tool of an open call, or a tool that an extension added, is no longer provided. */
export function checkToolsOfOpenCalls(tools: ToolSet, state: LoopState): void {
  for (const { call, result } of state.pendingToolCalls) {
    const { name } = call.function;
    if (result || tools.byName.has(name) || !state.availableTools.some((tool) => tool.name === name)) continue;
    throw new AgentLoopError(
      'MISSING_TOOL',
      `The turn has an open call of the tool "${name}", which no tool provider offers any more; add it and resume again.`,
      { taskId: state.turn.taskId },
    );
  }
  for (const name of state.changes.tools?.added ?? []) {
    if (tools.byName.has(name)) continue;
    const message = `An extension added the tool "${name}" to the turn, and no tool provider has it; give it to toolProviders, with hidden: true, and resume again.`;
    throw new AgentLoopError('MISSING_TOOL', message, { taskId: state.turn.taskId });
  }
}

import type { Context } from '@opentelemetry/api';
import { Observable, type Subscriber } from 'rxjs';
import {
  AgentLoopError,
  type AgentUsage,
  messageOf,
  type OnInDoubt,
  type ToolCall,
  toolError,
} from '../contracts/index.ts';
import { recordBranches } from '../hooks/record-of-change.ts';
import {
  type CommitDraft,
  type ExtensionRecord,
  type GivenAnswer,
  type LoopState,
  nextQuestionId,
  type PendingToolCall,
  type ToolIntent,
  type ToolProgress,
  type ToolResultRecord,
  type TurnAnswered,
  type TurnAsked,
} from '../journal/index.ts';
import { isReconciled } from '../options/index.ts';
import type { AbortScope } from '../streams/index.ts';
import { approvalOf, askApproval, type CallPlace, callsToApprove, mayAsk } from './ask-call.ts';
import { CallContext, type CallTurn } from './call-context.ts';
import { checkCall, rejected } from './check-call.ts';
import { type AllowedCall, answeredCall, type CheckedCall, refusedCall, type ToolCallDeps } from './tool-results.ts';

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
  deps: ToolCallDeps,
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
function failing(deps: ToolCallDeps, { pendingToolCalls }: LoopState, busy: BusyCalls): readonly ToolResultRecord[] {
  return pendingToolCalls.flatMap(({ callId, call, result }) => {
    const checked = result || busy.has(callId) ? undefined : deps.unstartedCalls.of(call).checked;
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
function checkOnce(deps: ToolCallDeps, place: CallPlace): CheckedCall | Promise<unknown> {
  const { call } = place.pending;
  const known = deps.unstartedCalls.of(call).checked;
  if (known) return known;
  const checked = checkCall(deps, place);
  if (!(checked instanceof Promise)) {
    if (mayAsk(deps) || deps.hooks.lists.beforeToolCall.length > 0) deps.unstartedCalls.update(call, { checked });
    return checked;
  }
  const done = checked.then((answer) => deps.unstartedCalls.update(call, { checked: answer }));
  deps.unstartedCalls.update(call, { checked: done });
  return done;
}

function isRejected(pending: PendingToolCall, args: unknown): boolean {
  return pending.answers.length > 0 && approvalOf(pending, args)?.approved === false;
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

/** Records what child turns of the hooks used that were asked about the call of a record, before that record. */
export function recordBranchesOf(
  { unstartedCalls }: ToolCallDeps,
  draft: CommitDraft,
  record: PlannedRecord | TurnAnswered | ExtensionRecord,
): void {
  const callId = record.type === 'turn.asked' ? record.question.callId : record.callId;
  if (callId !== undefined) recordBranches(draft, unstartedCalls.takeBranches(callId));
}

/** What becomes of a call in doubt: `'run'` it again, its result, or a question. */
export type Settled = 'run' | ToolResultRecord | TurnAsked;

interface Doubt {
  readonly pending: PendingToolCall;
  /** Of the batch that the call is in; a tool that is asked has one below it. */
  readonly batch: AbortScope;
  readonly traceContext: Context;
  /** The turn as it is when that is read. */
  readonly turn: CallTurn;
  /** Shows what a tool that is asked tells of its progress. */
  readonly progress: (progress: ToolProgress) => void;
}

/**
 * Settles a call in doubt: one that runs as a child turn runs again, and continues that; others as their tool's `onInDoubt` says: `retry` runs it again where the tool is `idempotent` or `readOnly`;
 * a `reconcile` function answers itself, and counts as unknown where it throws, does not answer within the tool's timeout, or not
 * within `abortGraceMs` of a cancel; `ask` asks the user of the turn, once for each start of the call; everything else tells the model
 * that the outcome is unknown. An Observable of one answer where the tool has to be asked.
 */
export function settleDoubt(deps: ToolCallDeps, doubt: Doubt): Settled | Observable<Settled> {
  const { pending } = doubt;
  const tool = deps.tools.byName.get(pending.call.function.name);
  const said = saidOf(pending);
  if (said) return reconciled(pending, said);
  if (!tool) return unknownOutcome(pending);
  if (pending.child || tool.definition.childTurn) return 'run';
  const { onInDoubt = 'fail', idempotent, readOnly, timeoutMs = deps.config.toolTimeoutMs } = tool.definition;
  if (typeof onInDoubt === 'function') return reconcile(deps, doubt, { ask: onInDoubt, timeoutMs });
  if (onInDoubt === 'ask') return askOutcome(pending);
  return onInDoubt === 'retry' && (idempotent || readOnly) ? 'run' : unknownOutcome(pending);
}

/** What was said of the last start of a call, where that was asked. */
function saidOf({ answers, attempts }: PendingToolCall): unknown {
  const given = answers.find((each) => each.question.kind === 'in-doubt' && each.attempts === attempts);
  return given?.answer;
}

function askOutcome(pending: PendingToolCall): TurnAsked {
  const { callId, call, intent } = pending;
  const toolName = call.function.name;
  const prompt = `The process stopped while the tool "${toolName}" ran. Did it take effect?`;
  return {
    type: 'turn.asked',
    question: { id: nextQuestionId(pending), callId, kind: 'in-doubt', toolName, prompt, data: intent?.arguments },
  };
}

interface Inquiry {
  readonly ask: Extract<OnInDoubt, (...given: never[]) => unknown>;
  readonly timeoutMs: number;
}

function reconcile(deps: ToolCallDeps, doubt: Doubt, { ask, timeoutMs }: Inquiry): Observable<Settled> {
  const { pending, batch } = doubt;
  return new Observable((to) => {
    const scope = batch.child();
    to.add(() => scope.release());
    const context = contextOf(deps, doubt, scope);
    const settle = (settled: Settled) => {
      to.next(settled);
      to.complete();
    };
    const failed = (why: string) => settle(refusedCall(pending.callId, toolError('in_doubt_failed', { why })));
    limitTime(deps, { scope, timeoutMs }, { to, failed });
    const answer = async () => ask(context.idempotencyKey, context);
    answer().then(
      (answered) => settle(reconciled(pending, answered)),
      (error: unknown) => failed(messageOf(error)),
    );
  });
}

function contextOf(
  deps: ToolCallDeps,
  { pending, traceContext, turn, progress }: Doubt,
  scope: AbortScope,
): CallContext {
  const { callId, call } = pending;
  const toolName = call.function.name;
  const owner = {
    progress: (update: unknown) => progress({ type: 'tool-progress', callId, toolName, update }),
    show: () => {},
    scope,
    turn,
  };
  return new CallContext(deps, { started: pending, traceContext, owner });
}

function limitTime(
  { config }: ToolCallDeps,
  { scope, timeoutMs }: { readonly scope: AbortScope; readonly timeoutMs: number },
  { to, failed }: { readonly to: Subscriber<Settled>; readonly failed: (why: string) => void },
): void {
  const { clock, abortGraceMs } = config;
  const timeout = () => {
    failed(`it did not answer within ${timeoutMs} ms`);
    scope.abort(new AgentLoopError('TOOL_TIMEOUT', `The question ran into its limit of ${timeoutMs} ms.`));
  };
  const abandon = () => failed(`it did not stop within ${abortGraceMs} ms of the cancel`);
  const onAbort = () => to.add(clock.schedule(abortGraceMs, abandon));
  if (timeoutMs > 0) to.add(clock.schedule(timeoutMs, timeout));
  if (scope.aborted) onAbort();
  else to.add(scope.onAbort(onAbort));
}

function reconciled(pending: PendingToolCall, answer: unknown): Settled {
  if (!isReconciled(answer)) return refusedCall(pending.callId, toolError('in_doubt_no_answer'));
  if (answer.outcome === 'not-applied') return 'run';
  if (answer.outcome === 'unknown') return unknownOutcome(pending);
  return { type: 'tool.result', callId: pending.callId, content: answer.content, success: true, durationMs: 0 };
}

/** Tells the model that nobody knows whether a call took effect. */
export function unknownOutcome({ callId }: PendingToolCall): ToolResultRecord {
  return refusedCall(callId, toolError('in_doubt'));
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

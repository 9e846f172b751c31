import {
  type ApprovalDecision,
  type ApprovalRequest,
  checkContent,
  isPromiseLike,
  messageOf,
  shownValue,
  stableJson,
  type ToolAnswer,
  type ToolCallChange,
  type ToolListContext,
  type ToolOutcomeChange,
  toolError,
} from '../contracts/index.ts';
import { askHooks } from '../hooks/ask-hooks.ts';
import type { AskedHook, HookPlace } from '../hooks/hook-context.ts';
import { hookTable } from '../hooks/hook-table.ts';
import type { UnrecordedBranch } from '../hooks/record-of-change.ts';
import {
  type Approval,
  type ExtensionRecord,
  type LoopState,
  nextQuestionId,
  type PendingToolCall,
  type ToolResultRecord,
  type TurnAsked,
} from '../journal/index.ts';
import { type AllowedCall, answeredCall, type CheckedCall, type ToolCallDeps } from './tool-results.ts';
import type { OfferedTool } from './tool-set.ts';

/** A call that is checked, with the state and the trace context of that moment. */
export interface CallPlace extends HookPlace {
  readonly pending: PendingToolCall;
}

/** Arguments with which an extension replaced the model's, not yet checked. */
interface ChangedArguments {
  readonly changed: unknown;
}

/** The outcome of the `beforeToolCall` hooks of a call. */
export interface ChangedToolCall {
  readonly answer: CheckedCall | ChangedArguments;
  /** The earliest deadline of the hooks. Milliseconds since 1970. */
  readonly deadline: number | undefined;
}

/** Calls the `beforeToolCall` hooks of a call; the first that denies or answers it is the last. Throws or rejects as `askHooks`. */
export function changeToolCall(
  deps: ToolCallDeps,
  { pending, state, traceContext }: CallPlace,
  checked: AllowedCall,
): ChangedToolCall | Promise<ChangedToolCall> {
  let deadline: number | undefined;
  let decided: CheckedCall | ChangedArguments = checked;
  const argumentsNow = () => ('changed' in decided ? decided.changed : decided.arguments);
  const { callId, call } = pending;
  const tool = checked.tool.definition;
  const asking = {
    hook: 'beforeToolCall',
    place: { state, traceContext },
    about: () => ({ callId, call, tool, arguments: argumentsNow() }),
    take(change: ToolCallChange) {
      const until = earliest(deadline, change.deadline);
      decided = decisionOf(change, argumentsNow()) ?? decided;
      deadline = until;
    },
    waiting: waiting(deps, pending),
  } as const;
  return askHooks(deps, asking, () => ({ answer: decided, deadline }));
}

/** Keeps a pending hook of a call that has not started, and the child turns of its hooks until the next record of the call. */
function waiting({ unstartedCalls }: ToolCallDeps, { callId, call }: Candidate['pending']) {
  return {
    callId,
    call,
    asked: (hook: AskedHook) => unstartedCalls.update(call, { hook }),
    keep: (branches: readonly UnrecordedBranch[]) => unstartedCalls.keep(branches),
  };
}

function earliest(one: number | undefined, other: number | undefined): number | undefined {
  if (other === undefined) return one;
  if (!Number.isFinite(other)) throw new TypeError(`its deadline is ${shownValue(other)}, not a time in milliseconds`);
  return one === undefined ? other : Math.min(one, other);
}

function decisionOf(change: ToolCallChange, before: unknown): CheckedCall | ChangedArguments | undefined {
  const { deny, answer } = change;
  const args = 'arguments' in change ? change.arguments : before;
  if (deny !== undefined) {
    if (typeof deny !== 'string') throw new TypeError(`its deny is ${shownValue(deny)}, not a reason`);
    return { verdict: 'refused', error: toolError('denied', { says: deny }), arguments: args };
  }
  if (answer !== undefined) return { verdict: 'answered', answer: checkedAnswer(answer), arguments: args };
  return 'arguments' in change ? { changed: args } : undefined;
}

function checkedAnswer(answer: ToolAnswer): ToolAnswer {
  if (answer?.content === undefined) throw new TypeError('it returned no content; return { content: "…" }');
  checkContent(answer.content, 'its content');
  const { success, error } = answer;
  if (success !== undefined && typeof success !== 'boolean')
    throw new TypeError(`its success is ${shownValue(success)}, neither true nor false`);
  if (error !== undefined && typeof error !== 'string')
    throw new TypeError(`its error must be a string, not ${shownValue(error)}`);
  return answer;
}

/** The outcome of a call after the `afterToolCall` hooks: its result, and the records of their other changes. */
export interface ChangedOutcome {
  readonly result: ToolResultRecord;
  readonly records: readonly ExtensionRecord[];
}

/** A call that ran, with its record-to-be. */
interface RanCall extends Candidate {
  readonly result: ToolResultRecord;
  /** The exception of the tool, if it threw. */
  readonly thrown: unknown;
}

interface OutcomePlace extends HookPlace {
  /** Receives a hook that is pending. */
  readonly asked: (hook: AskedHook) => void;
}

/** Calls the `afterToolCall` hooks of a call, before its outcome is recorded. Throws or rejects as `askHooks`. */
export function changeOutcome(
  deps: ToolCallDeps,
  { asked, state, traceContext }: OutcomePlace,
  { pending: { callId, call }, tool: { definition: tool }, ...ran }: RanCall,
): ChangedOutcome | Promise<ChangedOutcome> {
  let { result } = ran;
  const records: ExtensionRecord[] = [];
  const place: HookPlace = { state, traceContext, add: (record) => records.push(record) };
  const about = () => ({ ...ran, callId, call, tool, result });
  const take = (change: ToolOutcomeChange) => {
    if (change.result) result = answeredCall(checkedAnswer(change.result), result);
  };
  return askHooks(deps, { hook: 'afterToolCall', place, about, take, waiting: { asked, call } }, () => ({
    result,
    records,
  }));
}

/** Whether a call runs, is refused, or waits for an approval. */
export type Decision =
  | { readonly decision: 'approve' }
  | { readonly decision: 'reject'; readonly reason: string | undefined }
  | { readonly decision: 'ask'; readonly prompt: string | undefined };

/** A call with valid arguments. */
interface Candidate {
  readonly pending: Pick<PendingToolCall, 'callId' | 'call'>;
  readonly tool: OfferedTool;
  readonly arguments: unknown;
}

const approve: Decision = { decision: 'approve' };

/** Recorded as data: with other words a replay of an earlier journal deviates. */
const reasons = {
  answer: 'the answer was neither yes nor no',
  needsApproval: 'needsApproval answered neither true nor false',
} as const;

/**
 * Decides whether a call may run: the first `approveToolCall` hook that returns a decision, else the tool's `needsApproval`. One that throws or
 * returns an invalid value refuses the call, regardless of `onError`. Returns a promise only if one of them does.
 */
export function decide(deps: ToolCallDeps, place: HookPlace, candidate: Candidate): Decision | Promise<Decision> {
  const { needsApproval } = candidate.tool.definition;
  const own = () => (needsApproval ? ownDecision(needsApproval, requestOf(deps, candidate)) : approve);
  if (deps.hooks.lists.approveToolCall.length === 0) return own();
  const decided = decideByExtension(deps, place, candidate);
  return decided instanceof Promise ? decided.then((decision) => decision ?? own()) : (decided ?? own());
}

type Maybe<T> = T | undefined | Promise<T | undefined>;

/** The first decision of an `approveToolCall` hook. `askHooks` emits and logs the failure of a hook. */
function decideByExtension(deps: ToolCallDeps, place: HookPlace, candidate: Candidate): Maybe<Decision> {
  const { pending, arguments: args } = candidate;
  const { callId, call } = pending;
  let decision: Decision | undefined;
  const refuse = (error: unknown): Decision => ({ decision: 'reject', reason: messageOf(error) });
  try {
    const about = () => ({ callId, call, arguments: args });
    const take = (given: ApprovalDecision) => {
      decision = approvalDecision(given);
    };
    const asking = { hook: 'approveToolCall', place, about, take, waiting: waiting(deps, pending) } as const;
    const decided = askHooks(deps, asking, () => decision);
    return decided instanceof Promise ? decided.catch(refuse) : decided;
  } catch (error) {
    return refuse(error);
  }
}

/** The second argument of a tool's `needsApproval`. */
type NeedRequest = ToolListContext & Pick<ApprovalRequest, 'callId' | 'call' | 'arguments'>;

function ownDecision(
  needsApproval: NonNullable<OfferedTool['definition']['needsApproval']>,
  request: NeedRequest,
): Decision | Promise<Decision> {
  if (typeof needsApproval !== 'function') return needsApproval ? { decision: 'ask', prompt: undefined } : approve;
  const next = (needed: boolean): Decision => {
    if (typeof needed !== 'boolean') return { decision: 'reject', reason: reasons.needsApproval };
    return needed ? { decision: 'ask', prompt: undefined } : approve;
  };
  const refuse = (error: unknown): Decision => ({
    decision: 'reject',
    reason: `needsApproval failed: ${messageOf(error)}`,
  });
  try {
    const needed = needsApproval(request.arguments, request);
    return isPromiseLike(needed) ? Promise.resolve(needed).then(next).catch(refuse) : next(needed);
  } catch (error) {
    return refuse(error);
  }
}

function approvalDecision(given: ApprovalDecision): Decision {
  if ('approved' in given && typeof given.approved === 'boolean')
    return given.approved ? approve : { decision: 'reject', reason: textOrNone(given.reason) };
  const decided = 'decision' in given ? given : undefined;
  switch (decided?.decision) {
    case 'approve':
      return approve;
    case 'reject':
      return { decision: 'reject', reason: textOrNone(decided.reason) };
    case 'ask':
      return { decision: 'ask', prompt: textOrNone(decided.prompt) };
    default:
      throw new TypeError(hookTable.approveToolCall.misfit);
  }
}

function textOrNone(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function requestOf({ segment }: ToolCallDeps, { pending, arguments: args }: Candidate): NeedRequest {
  const { turn, authContext, context } = segment;
  const { taskId, agentId, contextId, metadata } = turn;
  const { callId, call } = pending;
  return { taskId, agentId, contextId, metadata, authContext, context, callId, call, arguments: args };
}

/**
 * The recorded decision about a call, if there is one. An approval counts only for the arguments that were shown; a rejection, or an
 * answer that is not a decision, counts for all.
 */
export function approvalOf({ answers }: PendingToolCall, args: unknown): Approval | undefined {
  for (const { question, answer } of answers) {
    if (question.kind !== 'approval') continue;
    const approval = isApproval(answer) ? answer : { approved: false, reason: reasons.answer };
    if (!approval.approved || stableJson(question.data) === stableJson(args)) return approval;
  }
  return undefined;
}

function isApproval(answer: unknown): answer is Approval {
  return typeof answer === 'object' && answer !== null && 'approved' in answer && typeof answer.approved === 'boolean';
}

/** Whether any call of the turn may need an approval. */
export function mayAsk({ hooks, segment }: ToolCallDeps): boolean {
  return hooks.lists.approveToolCall.length > 0 || segment.tools.anyNeedsApproval;
}

/** The calls of a batch that may need an approval and have not started, in call order. */
export function callsToApprove(
  deps: ToolCallDeps,
  state: LoopState,
  busy: Pick<ReadonlySet<string>, 'has'>,
): readonly PendingToolCall[] {
  const all = deps.hooks.lists.approveToolCall.length > 0;
  return state.pendingToolCalls.filter((pending) => {
    const { callId, call, attempts, question, result } = pending;
    if (question || result || attempts > 0 || busy.has(callId)) return false;
    return all || Boolean(deps.segment.tools.byName.get(call.function.name)?.definition.needsApproval);
  });
}

/** The approval question of a call. */
export function askApproval(pending: PendingToolCall, args: unknown, prompt: string | undefined): TurnAsked {
  const { callId, call } = pending;
  const toolName = call.function.name;
  const shownPrompt = prompt ?? `May the tool "${toolName}" run with these arguments?`;
  return {
    type: 'turn.asked',
    question: { id: nextQuestionId(pending), callId, kind: 'approval', toolName, prompt: shownPrompt, data: args },
  };
}

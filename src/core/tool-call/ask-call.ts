import {
  type ApprovalDecision,
  type ApprovalRequest,
  checkContent,
  type Extension,
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
import type { RanCall } from '../hooks/hook-subjects.ts';
import { hookTable } from '../hooks/hook-table.ts';
import { type AnyChange, recordOfChange, usageRecord } from '../hooks/record-of-change.ts';
import {
  type Approval,
  type ExtensionRecord,
  type LoopState,
  nextQuestionId,
  type PendingToolCall,
  type ToolResultRecord,
  type TurnAsked,
} from '../journal/index.ts';
import type { ParentTurn } from '../ownership/child-turns.ts';
import { type AllowedCall, answeredCall, type CheckedCall, type ToolCallDeps } from './tool-results.ts';
import type { OfferedTool } from './tool-set.ts';

/** Where a call stands that is checked. */
export interface CallPlace extends HookPlace {
  readonly pending: PendingToolCall;
}

/** Arguments that an extension put in place of the model's, not yet checked. */
interface ChangedArguments {
  readonly changed: unknown;
}

/** What extensions made of a call that is about to run. */
export interface ChangedToolCall {
  readonly answer: CheckedCall | ChangedArguments;
  /** The earliest that they gave. Milliseconds since 1970. */
  readonly deadline: number | undefined;
}

/** Asks the extensions about a call that is about to run; the first that denies or answers it is the last. Throws or rejects as `askHooks`. */
export function changeToolCall(
  deps: ToolCallDeps,
  { pending, state, traceContext }: CallPlace,
  checked: AllowedCall,
): ChangedToolCall | Promise<ChangedToolCall> {
  let deadline: number | undefined;
  let decided: CheckedCall | ChangedArguments = checked;
  const argumentsNow = () => ('changed' in decided ? decided.changed : decided.arguments);
  const asked = askHooks(deps, {
    hook: 'beforeToolCall',
    place: { state, traceContext },
    about: () => ({ pending, tool: checked.tool, arguments: argumentsNow() }),
    asked: (question) => deps.unstartedCalls.update(pending.call, { question }),
    keep: keepBranches(deps, 'beforeToolCall', pending),
    take(change) {
      deadline = earliest(deadline, change.deadline);
      decided = decisionOf(change, argumentsNow()) ?? decided;
      return 'changed' in decided || decided.verdict === 'run';
    },
  });
  const answered = () => deps.unstartedCalls.update(pending.call, { question: undefined });
  const changed = () => ({ answer: decided, deadline });
  return asked instanceof Promise ? asked.finally(answered).then(changed) : changed();
}

/** Keeps child turns of a hook until the next record of the call, which is written in one append with what they used. */
function keepBranches(
  { unstartedCalls }: ToolCallDeps,
  hook: 'beforeToolCall' | 'approveToolCall',
  { callId }: PendingToolCall,
): (parents: readonly ParentTurn[], extension: Extension) => void {
  return (parents, { name }) => unstartedCalls.keep(parents.map((parent) => ({ name, hook, callId, parent })));
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

/** What extensions made of the outcome of a call: its result, and what they changed besides. */
export interface ChangedOutcome {
  readonly result: ToolResultRecord;
  readonly records: readonly ExtensionRecord[];
}

/** Where a call stands that has run, and what receives the question that its outcome waits for. */
interface OutcomePlace extends HookPlace {
  readonly asked: (question: AskedHook) => void;
}

/** Asks the extensions about the outcome of a call, before it is recorded. Throws or rejects as `askHooks`. */
export function changeOutcome(
  deps: ToolCallDeps,
  { asked: waiting, ...place }: OutcomePlace,
  ran: RanCall,
): ChangedOutcome | Promise<ChangedOutcome> {
  let shown = ran;
  const records: ExtensionRecord[] = [];
  const asked = askHooks(deps, {
    hook: 'afterToolCall',
    place,
    about: () => shown,
    asked: waiting,
    take(change, { name }, { childUsage: used }) {
      if (change.result) shown = { ...shown, result: answeredCall(checkedAnswer(change.result), shown.result) };
      const record = recordOfChange(besides(change), { deps, state: place.state, name, hook: 'afterToolCall', used });
      if (record) records.push(record);
      return true;
    },
    count: (used, { name }) => records.push(usageRecord(used, { name, hook: 'afterToolCall' })),
  });
  const changed = () => ({ result: shown.result, records });
  return asked instanceof Promise ? asked.then(changed) : changed();
}

function besides({ messages, finish, agent, usage, usageBy, data, events }: ToolOutcomeChange): AnyChange {
  return {
    ...(messages && { messages }),
    ...(finish && { finish }),
    ...(agent && { agent }),
    ...(usage && { usage }),
    ...(usageBy && { usageBy }),
    ...(data === undefined ? {} : { data }),
    ...(events && { events }),
  };
}

/** Whether a call runs, is refused, or somebody is asked. */
export type Decision =
  | { readonly decision: 'approve' }
  | { readonly decision: 'reject'; readonly reason: string | undefined }
  | { readonly decision: 'ask'; readonly prompt: string | undefined };

/** A call whose arguments are in order. */
interface Candidate {
  readonly pending: PendingToolCall;
  readonly tool: OfferedTool;
  readonly arguments: unknown;
}

const approve: Decision = { decision: 'approve' };

/**
 * Whether a call may run: the first extension that has an opinion decides, else the tool's `needsApproval`. What throws, or answers nonsense,
 * refuses the call, whatever `onError` says; that of an extension is shown and logged. A promise only where one of them is.
 */
export function decide(deps: ToolCallDeps, place: HookPlace, candidate: Candidate): Decision | Promise<Decision> {
  const { needsApproval } = candidate.tool.definition;
  const own = () => (needsApproval ? ownDecision(needsApproval, requestOf(deps, candidate)) : approve);
  if (deps.hooks.lists.approveToolCall.length === 0) return own();
  const decided = decideByExtension(deps, place, candidate);
  return decided instanceof Promise ? decided.then((decision) => decision ?? own()) : (decided ?? own());
}

type Maybe<T> = T | undefined | Promise<T | undefined>;

/** The decision of the first extension that has an opinion. A hook that fails is shown and logged by `askHooks`. */
function decideByExtension(deps: ToolCallDeps, place: HookPlace, candidate: Candidate): Maybe<Decision> {
  const { call } = candidate.pending;
  let decision: Decision | undefined;
  const answered = () => deps.unstartedCalls.update(call, { question: undefined });
  const refuse = (error: unknown): Decision => {
    answered();
    return { decision: 'reject', reason: messageOf(error) };
  };
  const decided = () => {
    answered();
    return decision;
  };
  try {
    const asked = askHooks(deps, {
      hook: 'approveToolCall',
      place,
      about: () => candidate,
      asked: (question) => deps.unstartedCalls.update(call, { question }),
      keep: keepBranches(deps, 'approveToolCall', candidate.pending),
      take(given) {
        decision = approvalDecision(given);
        return false;
      },
    });
    return asked instanceof Promise ? asked.then(decided).catch(refuse) : decision;
  } catch (error) {
    return refuse(error);
  }
}

/** What `needsApproval` of a tool gets. */
type NeedRequest = ToolListContext & Pick<ApprovalRequest, 'callId' | 'call' | 'arguments'>;

function ownDecision(
  needsApproval: NonNullable<OfferedTool['definition']['needsApproval']>,
  request: NeedRequest,
): Decision | Promise<Decision> {
  if (typeof needsApproval !== 'function') return needsApproval ? { decision: 'ask', prompt: undefined } : approve;
  const next = (needed: boolean): Decision => {
    if (typeof needed !== 'boolean')
      return { decision: 'reject', reason: 'needsApproval answered neither true nor false' };
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

function requestOf({ turn, authContext, context }: ToolCallDeps, { pending, arguments: args }: Candidate): NeedRequest {
  const { taskId, agentId, contextId, metadata } = turn;
  const { callId, call } = pending;
  return { taskId, agentId, contextId, metadata, authContext, context, callId, call, arguments: args };
}

/**
 * Whether a call was approved, once that was asked and answered. With other arguments than those that were shown it has to be asked
 * again; a no counts for all, and so does an answer that is no decision.
 */
export function approvalOf({ answers }: PendingToolCall, args: unknown): Approval | undefined {
  for (const { question, answer } of answers) {
    if (question.kind !== 'approval') continue;
    const approval = isApproval(answer) ? answer : { approved: false, reason: 'the answer was neither yes nor no' };
    if (!approval.approved || stableJson(question.data) === stableJson(args)) return approval;
  }
  return undefined;
}

function isApproval(answer: unknown): answer is Approval {
  return typeof answer === 'object' && answer !== null && 'approved' in answer && typeof answer.approved === 'boolean';
}

/** Whether any call of the turn may have to be approved. */
export function mayAsk({ hooks, tools }: ToolCallDeps): boolean {
  return hooks.lists.approveToolCall.length > 0 || tools.anyNeedsApproval;
}

/** The calls of a batch that may have to be approved and were not asked about yet, in call order. */
export function callsToApprove(
  deps: ToolCallDeps,
  state: LoopState,
  busy: Pick<ReadonlySet<string>, 'has'>,
): readonly PendingToolCall[] {
  const all = deps.hooks.lists.approveToolCall.length > 0;
  return state.pendingToolCalls.filter((pending) => {
    const { callId, call, attempts, question, result } = pending;
    if (question || result || attempts > 0 || busy.has(callId)) return false;
    return all || Boolean(deps.tools.byName.get(call.function.name)?.definition.needsApproval);
  });
}

/** The question whether a call may run. */
export function askApproval(pending: PendingToolCall, args: unknown, prompt: string | undefined): TurnAsked {
  const { callId, call } = pending;
  const toolName = call.function.name;
  const words = prompt ?? `May the tool "${toolName}" run with these arguments?`;
  return {
    type: 'turn.asked',
    question: { id: nextQuestionId(pending), callId, kind: 'approval', toolName, prompt: words, data: args },
  };
}

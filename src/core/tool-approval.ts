import type { AuthContext } from '../tools/interfaces.ts';
import { stableJson } from './check-answers.ts';
import { messageOf } from './errors.ts';
import type { ApprovalDecision, ApprovalRequest, Extension, HookAnswer } from './extension.ts';
import type { Hooks } from './hooks.ts';
import { isPromiseLike } from './promise-like.ts';
import type { Approval, TurnAsked } from './records.ts';
import { type LoopState, nextQuestionId, type PendingToolCall, type TurnIdentity } from './state.ts';
import type { OfferedTool } from './tool-set.ts';
import type { TurnDeps } from './turn-deps.ts';

/** What decides whether a call may run. */
export interface DecisionDeps {
  readonly turn: TurnIdentity;
  readonly authContext: AuthContext | undefined;
  readonly context: unknown;
  readonly hooks: Hooks;
}

/** Whether a call runs, is refused, or somebody is asked. */
export type Decision =
  | { readonly decision: 'approve' }
  | { readonly decision: 'reject'; readonly reason: string | undefined }
  | { readonly decision: 'ask'; readonly prompt: string | undefined };

/** A call whose arguments are in order. */
export interface Candidate {
  readonly pending: PendingToolCall;
  readonly tool: OfferedTool;
  readonly arguments: unknown;
}

const approve: Decision = { decision: 'approve' };

/**
 * Whether a call may run: the first extension that has an opinion decides, else the tool's `needsApproval`. What throws refuses the
 * call. A promise only where one of them is.
 */
export function decide(deps: DecisionDeps, candidate: Candidate): Decision | Promise<Decision> {
  const { needsApproval } = candidate.tool.definition;
  const approvers = deps.hooks.lists.approveToolCall;
  if (approvers.length === 0 && !needsApproval) return approve;
  const request = requestOf(deps, candidate);
  return decideBy(approvers, request, () => ownDecision(needsApproval, request));
}

function decideBy(
  approvers: readonly Extension[],
  request: ApprovalRequest,
  last: () => Decision | Promise<Decision>,
): Decision | Promise<Decision> {
  const [approver, ...others] = approvers;
  if (!approver) return last();
  // biome-ignore lint/suspicious/noConfusingVoidType: an extension without an opinion gives nothing
  const next = (given: ApprovalDecision | undefined | void): Decision | Promise<Decision> =>
    given === undefined ? decideBy(others, request, last) : decisionOf(approver, given);
  return attempt<Awaited<HookAnswer<ApprovalDecision>>>(
    () => approver.approveToolCall?.(request),
    next,
    `extension "${approver.name}"`,
  );
}

function ownDecision(
  needsApproval: OfferedTool['definition']['needsApproval'],
  request: ApprovalRequest,
): Decision | Promise<Decision> {
  if (typeof needsApproval !== 'function') return needsApproval ? { decision: 'ask', prompt: undefined } : approve;
  const next = (needed: boolean): Decision => {
    if (typeof needed !== 'boolean')
      return { decision: 'reject', reason: 'needsApproval answered neither true nor false' };
    return needed ? { decision: 'ask', prompt: undefined } : approve;
  };
  return attempt(() => needsApproval(request.arguments, request), next, 'needsApproval');
}

/** Goes on with what an approver answers, at once where it does. */
function attempt<T>(
  ask: () => T | Promise<T>,
  next: (answer: T) => Decision | Promise<Decision>,
  who: string,
): Decision | Promise<Decision> {
  const refuse = (error: unknown): Decision => ({ decision: 'reject', reason: `${who} failed: ${messageOf(error)}` });
  try {
    const answer = ask();
    return isPromiseLike(answer) ? Promise.resolve(answer).then(next).catch(refuse) : next(answer);
  } catch (error) {
    return refuse(error);
  }
}

function decisionOf({ name }: Extension, given: ApprovalDecision): Decision {
  switch (given.decision) {
    case 'approve':
      return approve;
    case 'reject':
      return { decision: 'reject', reason: textOrNone(given.reason) };
    case 'ask':
      return { decision: 'ask', prompt: textOrNone(given.prompt) };
    default:
      return { decision: 'reject', reason: `extension "${name}" gave no decision: approve, reject or ask` };
  }
}

function textOrNone(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function requestOf(
  { turn, authContext, context }: DecisionDeps,
  { pending, arguments: args }: Candidate,
): ApprovalRequest {
  const { taskId, agentId, contextId, metadata } = turn;
  const { callId, call } = pending;
  return { taskId, agentId, contextId, metadata, authContext, context, callId, call, arguments: args };
}

/**
 * Whether a call was approved, once that was asked and answered. With other arguments than those that were shown it has to be asked
 * again; a no counts for all.
 */
export function approvalOf({ answers }: PendingToolCall, args: unknown): Approval | undefined {
  if (answers.length === 0) return undefined;
  const approvals = answers.filter(({ question }) => question.kind === 'approval');
  const shown = stableJson(args);
  const given = approvals.find(({ question, answer }) => isNo(answer) || stableJson(question.data) === shown);
  return given?.answer as Approval | undefined;
}

function isNo(answer: unknown): boolean {
  return (answer as Approval).approved === false;
}

/** Whether any call of the turn may have to be approved. */
export function mayAsk({ hooks, tools }: TurnDeps): boolean {
  return hooks.lists.approveToolCall.length > 0 || tools.anyNeedsApproval;
}

/** The calls of a batch that may have to be approved and were not asked about yet, in call order. */
export function callsToApprove(
  deps: TurnDeps,
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

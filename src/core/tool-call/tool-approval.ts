import { exceptionOf, type TurnTracing } from '../../observability/spans/tracing-options.ts';
import { messageOf } from '../contracts/errors.ts';
import type { ApprovalDecision, ApprovalRequest, Extension, HookAnswer } from '../contracts/extension.ts';
import type { ToolCall } from '../contracts/messages.ts';
import { isPromiseLike } from '../contracts/promise-like.ts';
import type { AuthContext } from '../contracts/tool.ts';
import type { Hooks } from '../hooks/hooks.ts';
import type { Approval, TurnAsked } from '../journal/records.ts';
import { type LoopState, nextQuestionId, type PendingToolCall, type TurnIdentity } from '../journal/state.ts';
import { stableJson } from '../options/check-answers.ts';
import type { ResolvedConfig } from '../options/resolve-config.ts';
import type { TurnDeps } from '../turn/turn-deps.ts';
import type { OfferedTool } from './tool-set.ts';

/** What decides whether a call may run. */
export interface DecisionDeps {
  readonly turn: TurnIdentity;
  readonly authContext: AuthContext | undefined;
  readonly context: unknown;
  readonly hooks: Hooks;
  readonly config: Pick<ResolvedConfig, 'logger'>;
  readonly tracing: Pick<TurnTracing, 'redact'>;
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
 * Whether a call may run: the first extension that has an opinion decides, else the tool's `needsApproval`. What throws, or answers nonsense,
 * refuses the call, whatever `onError` says; that of an extension is shown and logged. A promise only where one of them is.
 */
export function decide(deps: DecisionDeps, candidate: Candidate): Decision | Promise<Decision> {
  const { needsApproval } = candidate.tool.definition;
  const approvers = deps.hooks.lists.approveToolCall;
  if (approvers.length === 0 && !needsApproval) return approve;
  const request = requestOf(deps, candidate);
  return decideBy({ deps, approvers, request, call: candidate.pending.call }, () =>
    ownDecision(needsApproval, request),
  );
}

interface Asked {
  readonly deps: DecisionDeps;
  readonly approvers: readonly Extension[];
  readonly request: ApprovalRequest;
  readonly call: ToolCall;
}

function decideBy(asked: Asked, last: () => Decision | Promise<Decision>): Decision | Promise<Decision> {
  const { deps, request, call } = asked;
  const [approver, ...others] = asked.approvers;
  if (!approver) return last();
  const { name } = approver;
  // biome-ignore lint/suspicious/noConfusingVoidType: an extension without an opinion gives nothing
  const next = (given: ApprovalDecision | undefined | void): Decision | Promise<Decision> => {
    deps.hooks.approving.delete(call);
    return given === undefined || given === null ? decideBy({ ...asked, approvers: others }, last) : decisionOf(given);
  };
  const failed = (error: unknown) => {
    deps.hooks.approving.delete(call);
    noteApprovalFailure(deps, name, error);
  };
  deps.hooks.approving.set(call, name);
  const ask = () => approver.approveToolCall?.(request);
  return attempt<Awaited<HookAnswer<ApprovalDecision>>>(ask, next, { who: `extension "${name}"`, failed });
}

/** Shows and logs that an extension failed to decide about a call. The call is refused, the turn continues. */
export function noteApprovalFailure(
  { hooks, config, turn, tracing }: Pick<DecisionDeps, 'hooks' | 'config' | 'turn' | 'tracing'>,
  extension: string,
  thrown: unknown,
): void {
  const hook = 'approveToolCall';
  hooks.out?.next({ type: 'extension-error', extension, hook, message: messageOf(thrown), fatal: false });
  const error = exceptionOf(thrown, tracing.redact);
  config.logger.warn('extension failed', { taskId: turn.taskId, extension, hook, error });
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
  return attempt(() => needsApproval(request.arguments, request), next, { who: 'needsApproval' });
}

/** Continues with the answer of an approver, synchronously if it is synchronous. */
function attempt<T>(
  ask: () => T | Promise<T>,
  next: (answer: T) => Decision | Promise<Decision>,
  { who, failed }: { readonly who: string; readonly failed?: (error: unknown) => void },
): Decision | Promise<Decision> {
  const refuse = (error: unknown): Decision => {
    failed?.(error);
    return { decision: 'reject', reason: `${who} failed: ${messageOf(error)}` };
  };
  try {
    const answer = ask();
    return isPromiseLike(answer) ? Promise.resolve(answer).then(next).catch(refuse) : next(answer);
  } catch (error) {
    return refuse(error);
  }
}

function decisionOf(given: ApprovalDecision): Decision {
  if (typeof given === 'object' && 'approved' in given && typeof given.approved === 'boolean')
    return given.approved ? approve : { decision: 'reject', reason: textOrNone(given.reason) };
  const decided = typeof given === 'object' && 'decision' in given ? given : undefined;
  switch (decided?.decision) {
    case 'approve':
      return approve;
    case 'reject':
      return { decision: 'reject', reason: textOrNone(decided.reason) };
    case 'ask':
      return { decision: 'ask', prompt: textOrNone(decided.prompt) };
    default:
      throw new TypeError('it gave no decision: { approved }, or { decision } with approve, reject or ask');
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
 * again; a no counts for all, and so does an answer that is no decision.
 */
export function approvalOf({ answers }: PendingToolCall, args: unknown): Approval | undefined {
  if (answers.length === 0) return undefined;
  const shown = stableJson(args);
  for (const { question, answer } of answers) {
    if (question.kind !== 'approval') continue;
    const approval = isApproval(answer) ? answer : { approved: false, reason: 'the answer was neither yes nor no' };
    if (!approval.approved || stableJson(question.data) === shown) return approval;
  }
  return undefined;
}

function isApproval(answer: unknown): answer is Approval {
  return typeof answer === 'object' && answer !== null && 'approved' in answer && typeof answer.approved === 'boolean';
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

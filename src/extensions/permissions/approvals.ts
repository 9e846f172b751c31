import { createHmac, timingSafeEqual } from 'node:crypto';
import {
  type ApprovalDecision,
  type ApprovalRequest,
  type Extension,
  stableJson,
  type ToolCall,
  type ToolDefinition,
} from '../../core/contracts/index.ts';
import type { Approval, GivenAnswer, LoopState, Question } from '../../core/journal/index.ts';
import { aFunction, assertOptions, type OptionRule, oneOf, someStrings } from '../../options/option-rules.ts';
import { matchesName } from './tool-permissions.ts';

/** Options of `approvals`: which calls need approval, how often, and how it is verified. */
export interface ApprovalsOptions {
  /** Names of tools whose calls need approval; `*` matches any characters. Default: all tools that are not `readOnly`. */
  readonly tools?: readonly string[] | undefined;
  /**
   * When the turn asks: `'always'` (default), for each call; `'once'`, until a call of the tool was approved;
   * `'same-arguments'`, until a call of it with equal arguments was.
   */
  readonly policy?: 'always' | 'once' | 'same-arguments' | undefined;
  /** The question. Default: whether the tool may run with these arguments. */
  readonly prompt?: ((request: ApprovalRequest) => string) | undefined;
  /** Accepts only answers signed by `signApproval` with this key, for questions of any tool. Keep it out of the code. */
  readonly signingKey?: string | Uint8Array | undefined;
}

/**
 * Asks for approval of tool calls, as a tool's `needsApproval`, by rules for the whole turn. Approvals are
 * journaled, so a resumed turn keeps them. Calls of one batch ask at the same time, so `'once'` may ask several times.
 *
 * With a `signingKey` a call whose answer is unsigned, or signed for something else, is denied, whatever the answer.
 * Errors: `INVALID_CONFIG`, naming the option.
 */
export function approvals(options: ApprovalsOptions = {}): Extension {
  assertOptions('approvals', options, { tools: someStrings, policy: aPolicy, prompt: aFunction, signingKey: aKey });
  // Approval follows directly after this hook, without access to the turn itself.
  const asked = new WeakMap<ToolCall, Asked>();
  return {
    name: 'approvals',
    beforeToolCall({ call, callId, state, tool }) {
      asked.set(call, { state, tool });
      const answers = state.pendingToolCalls.find((pending) => pending.callId === callId)?.answers ?? [];
      const forged = answers.some((answer) => answer.question.kind === 'approval' && !counts(options, state, answer));
      return forged ? { deny: 'the call was rejected: its approval is not signed as it has to be' } : undefined;
    },
    approveToolCall(request) {
      const place = asked.get(request.call);
      return place && decision(options, request, place);
    },
  };
}

interface Asked {
  readonly state: LoopState;
  readonly tool: ToolDefinition;
}

const aPolicy = oneOf('always', 'once', 'same-arguments');
const aKey: OptionRule = {
  fits: (value) => (typeof value === 'string' || value instanceof Uint8Array) && value.length >= 16,
  must: 'be a secret of at least 16 characters or bytes',
  secret: true,
};

function decision(
  options: ApprovalsOptions,
  request: ApprovalRequest,
  { state, tool }: Asked,
): ApprovalDecision | undefined {
  const { tools, prompt } = options;
  const { name } = tool.function;
  if (tools ? !matchesName(tools, name) : tool.readOnly === true) return undefined;
  if (state.answers.some((given) => isPrecedent(options, { given, name, request, state })))
    return { decision: 'approve' };
  return { decision: 'ask', ...(prompt && { prompt: prompt(request) }) };
}

interface Precedent {
  readonly given: GivenAnswer;
  readonly name: string;
  readonly request: ApprovalRequest;
  readonly state: LoopState;
}

/** Whether an earlier answer approves a call. */
function isPrecedent(options: ApprovalsOptions, { given, name, request, state }: Precedent): boolean {
  const { policy = 'always' } = options;
  const { question, answer } = given;
  if (policy === 'always' || question.kind !== 'approval' || question.toolName !== name) return false;
  if (!isYes(answer) || !counts(options, state, given)) return false;
  return policy === 'once' || stableJson(question.data) === stableJson(request.arguments);
}

function counts({ signingKey }: ApprovalsOptions, { turn }: LoopState, { question, answer }: GivenAnswer): boolean {
  return signingKey === undefined || isSignedApproval(signingKey, { taskId: turn.taskId, question, answer });
}

function isYes(answer: unknown): boolean {
  return typeof answer === 'object' && answer !== null && 'approved' in answer && answer.approved === true;
}

/** An approval with a signature. */
export interface SignedApproval extends Approval {
  /** HMAC-SHA256 in hexadecimal. */
  readonly signature: string;
}

/** The signed data: the decision and its question. */
export interface DecisionOn extends Approval {
  readonly taskId: string;
  readonly question: Pick<Question, 'id' | 'toolName' | 'data'>;
}

/**
 * The answer to an `approval` question with the signature that `approvals({ signingKey })` requires. It is valid only for this question of this
 * task, with the same tool, arguments and decision.
 */
export function signApproval(key: string | Uint8Array, decision: DecisionOn): SignedApproval {
  const { approved, reason } = decision;
  return { approved, ...(reason !== undefined && { reason }), signature: signatureOf(key, decision) };
}

/** Whether an answer has a valid signature for its decision on this question. */
export function isSignedApproval(
  key: string | Uint8Array,
  { taskId, question, answer }: { readonly answer: unknown } & Pick<DecisionOn, 'taskId' | 'question'>,
): boolean {
  if (typeof answer !== 'object' || answer === null || !('approved' in answer) || !('signature' in answer))
    return false;
  const { approved, signature } = answer;
  const reason = 'reason' in answer ? answer.reason : undefined;
  if (typeof approved !== 'boolean' || typeof signature !== 'string') return false;
  if (reason !== undefined && typeof reason !== 'string') return false;
  const decision = { taskId, question, approved, ...(reason !== undefined && { reason }) };
  const [given, right] = [Buffer.from(signature), Buffer.from(signatureOf(key, decision))];
  return given.length === right.length && timingSafeEqual(given, right);
}

function signatureOf(key: string | Uint8Array, { taskId, question, approved, reason }: DecisionOn): string {
  const { id, toolName, data } = question;
  return createHmac('sha256', key)
    .update(stableJson({ taskId, id, toolName, data, approved, reason: reason ?? null }))
    .digest('hex');
}

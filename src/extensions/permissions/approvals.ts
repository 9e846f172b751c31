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
import { aFunction, assertOptions, type OptionRule, oneOf, someStrings } from '../../core/options/index.ts';
import { matchesName } from './tool-permissions.ts';

/** Options of `approvals`: which calls have to be approved, how often, and how. */
export interface ApprovalsOptions {
  /** Whose calls have to be approved: names, in which `*` stands for any characters. Default: of all tools that are not `readOnly`. */
  readonly tools?: readonly string[] | undefined;
  /**
   * How often somebody is asked in a turn: `'always'` (default) about each call; `'once'` until a call of the tool was approved;
   * `'same-arguments'` until a call of it with equal arguments was.
   */
  readonly policy?: 'always' | 'once' | 'same-arguments' | undefined;
  /** What is asked. Default: whether the tool may run with these arguments. */
  readonly prompt?: ((request: ApprovalRequest) => string) | undefined;
  /** Only answers count that `signApproval` made with this key, on questions of any tool. Keep it out of the code. */
  readonly signingKey?: string | Uint8Array | undefined;
}

/**
 * Asks for approval of tool calls, as `needsApproval` of a tool does, by rules for the whole turn. What was approved stands in the
 * journal, so a resumed turn remembers it. Calls of one batch are asked about at the same time, so `'once'` may ask about several.
 *
 * With a `signingKey` a call with an answer that is not signed, or signed for something else, is denied, whatever the answer says.
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

/** Whether an answer that was given before is enough for a call. */
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

/** An approval that says who gave it. */
export interface SignedApproval extends Approval {
  /** HMAC-SHA256 in hexadecimal. */
  readonly signature: string;
}

/** What is signed: the decision, and on what. */
export interface DecisionOn extends Approval {
  readonly taskId: string;
  readonly question: Pick<Question, 'id' | 'toolName' | 'data'>;
}

/**
 * The answer to an `approval` question with the signature that `approvals({ signingKey })` asks for. It counts for this question of this
 * task alone, with the tool, the arguments and the decision that it was made for.
 */
export function signApproval(key: string | Uint8Array, decision: DecisionOn): SignedApproval {
  const { approved, reason } = decision;
  return { approved, ...(reason !== undefined && { reason }), signature: signatureOf(key, decision) };
}

/** Whether an answer carries the signature of its decision on this question. */
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

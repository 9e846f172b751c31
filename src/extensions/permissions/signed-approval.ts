import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Approval, Question } from '../../core/journal/index.ts';
import { stableJson } from '../../core/options/index.ts';

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

import { type LimitError, nestedTooDeep } from '../../body-limits.ts';
import { AgentLoopError, type AgentLoopErrorOptions, type ErrorCode } from '../../core/contracts/index.ts';
import { retryableCodes } from '../../providers/http-status.ts';

/** What an error may say of the other side. */
export interface RemoteName {
  /** Origin and path. */
  readonly address: string;
  /** What the last request was authorized by; none of it is ever shown. */
  readonly secrets: readonly string[];
}

/** An error of the other side. Here, since this file needs no package: what looks at a card is imported with the entry. */
export function failure(
  name: RemoteName,
  code: ErrorCode,
  what: string,
  options: Pick<AgentLoopErrorOptions, 'status' | 'reason'> = {},
): AgentLoopError {
  const retryable = retryableCodes.has(code);
  return new AgentLoopError(code, `The agent at ${name.address} ${what}.`, { retryable, ...options });
}

/** The error of an answer that is too large, or nests too deep. */
export function limitFailure(name: RemoteName): LimitError {
  return (what, limit) =>
    limit === 'size'
      ? failure(name, 'PROVIDER_TOO_LARGE', what)
      : failure(name, 'PROVIDER_PROTOCOL', what, { reason: nestedTooDeep });
}

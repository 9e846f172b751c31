import type { ErrorCode } from '../core/contracts/index.ts';

/** Failures that usually pass. */
export const retryableCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'PROVIDER_UNREACHABLE',
  'PROVIDER_RATE_LIMIT',
  'PROVIDER_SERVER',
  'PROVIDER_STREAM_CLOSED',
  'PROVIDER_TIMEOUT',
]);

/** Statuses below 500 that say nothing against the same request made later: conflicts, locks, and connections that a gateway lost. */
const passingStatuses: ReadonlySet<number> = new Set([408, 409, 420, 421, 423, 424, 425, 429, 444, 449, 460, 499]);
/** What the server cannot do at all. */
const lastingStatuses: ReadonlySet<number> = new Set([501, 505]);

/** Whether a failure with this code and status may pass by itself. */
export function isTransient(code: ErrorCode, status: number): boolean {
  return (retryableCodes.has(code) || passingStatuses.has(status)) && !lastingStatuses.has(status);
}

/** The code of an HTTP status that is not one of success. */
export function codeOfStatus(status: number): ErrorCode {
  if (status >= 500) return 'PROVIDER_SERVER';
  switch (status) {
    case 401:
    case 402:
    case 403:
      return 'PROVIDER_AUTH';
    case 404:
    case 405:
    case 410:
      return 'PROVIDER_NOT_FOUND';
    case 400:
    case 414:
    case 415:
    case 422:
      return 'PROVIDER_BAD_REQUEST';
    case 413:
      return 'CONTEXT_OVERFLOW';
    case 408:
      return 'PROVIDER_TIMEOUT';
    case 420:
    case 429:
      return 'PROVIDER_RATE_LIMIT';
    case 424:
    case 444:
    case 460:
    case 499:
      return 'PROVIDER_SERVER';
    default:
      return 'PROVIDER_FAILED';
  }
}

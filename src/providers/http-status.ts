import type { ErrorCode } from '../core/contracts/index.ts';

/** Failures that usually pass. */
export const retryableCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'PROVIDER_UNREACHABLE',
  'PROVIDER_RATE_LIMIT',
  'PROVIDER_SERVER',
  'PROVIDER_STREAM_CLOSED',
  'PROVIDER_TIMEOUT',
]);

/** Whether a failure with this code and status may pass by itself. */
export function isTransient(code: ErrorCode, status: number): boolean {
  return (retryableCodes.has(code) || status === 409 || status === 425) && status !== 501;
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
    case 413:
    case 414:
    case 415:
    case 422:
      return 'PROVIDER_BAD_REQUEST';
    case 408:
      return 'PROVIDER_TIMEOUT';
    case 429:
      return 'PROVIDER_RATE_LIMIT';
    default:
      return 'PROVIDER_FAILED';
  }
}

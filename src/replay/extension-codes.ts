import type { ErrorCode } from '../core/contracts/index.ts';

/** How a turn fails by what an extension says or does. */
export const extensionCodes: ReadonlySet<ErrorCode> = new Set([
  'EXTENSION_FAILED',
  'LIMIT',
  'GUARDRAIL',
  'PARSE_ERROR',
]);

import type { LLMResponse } from '../../core/contracts/index.ts';
import { responseFlaw } from '../../core/model-call/index.ts';

/** Whether a value that was read has the shape of an answer. */
export function isResponse(value: unknown): value is LLMResponse {
  if (typeof value !== 'object' || value === null) return false;
  const { message, ...rest }: Partial<LLMResponse> = value;
  return message !== undefined && responseFlaw({ message, ...rest }) === undefined;
}

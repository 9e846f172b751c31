import { responseFlaw } from '../../core/response.ts';
import type { LLMResponse } from '../interfaces.ts';

/** Whether a value that was read has the shape of an answer. */
export function isResponse(value: unknown): value is LLMResponse {
  if (typeof value !== 'object' || value === null) return false;
  const { message, ...rest }: Partial<LLMResponse> = value;
  return message !== undefined && responseFlaw({ message, ...rest }) === undefined;
}

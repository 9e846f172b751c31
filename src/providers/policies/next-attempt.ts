import { concat, defer, EMPTY, type Observable, of } from 'rxjs';
import type { AgentLoopError } from '../../core/errors.ts';
import type { LLMChunk } from '../interfaces.ts';

/**
 * Goes on with another attempt: what the failed one streamed is void at once, for the reason of its error's code; the new one begins
 * when `wait` is over.
 */
export function nextAttempt(
  failed: AgentLoopError,
  attempt: () => Observable<LLMChunk>,
  wait: Observable<never> = EMPTY,
): Observable<LLMChunk> {
  const voided: LLMChunk = { type: 'attempt', state: 'void', reason: failed.code };
  return concat(of(voided), wait, of<LLMChunk>({ type: 'attempt', state: 'begin' }), defer(attempt));
}

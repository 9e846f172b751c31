import { concat, defer, type Observable, of } from 'rxjs';
import type { AgentLoopError, LLMChunk } from '../../core/contracts/index.ts';

/** What the attempt that failed streamed is void, for the reason of its error's code. */
export function voidAttempt({ code }: AgentLoopError): LLMChunk {
  return { type: 'attempt', state: 'void', reason: code };
}

export function beginAttempt(): LLMChunk {
  return { type: 'attempt', state: 'begin' };
}

/** Makes another attempt at once. */
export function nextAttempt(failed: AgentLoopError, attempt: () => Observable<LLMChunk>): Observable<LLMChunk> {
  return concat(of(voidAttempt(failed), beginAttempt()), defer(attempt));
}

import { AgentLoopError, type ErrorCode, type LLMCallParams, type LLMChunk, type LLMProvider } from 'millrace';
import type { AgentLoopErrorOptions } from 'millrace/types';
import { lastValueFrom, map, type Observable, throwError, toArray } from 'rxjs';

export const hi: LLMCallParams = { messages: [{ role: 'user', content: 'Hi' }] };

/** An error of a provider; retryable unless said otherwise. */
export function failure(code: ErrorCode, options: AgentLoopErrorOptions = {}): AgentLoopError {
  return new AgentLoopError(code, `It failed with ${code}.`, { retryable: true, ...options });
}

/** What the stream of a provider behind a policy gives. */
export function streamOf(provider: LLMProvider, params: LLMCallParams = hi): Observable<LLMChunk> {
  if (provider.stream) return provider.stream(params);
  throw new Error('the provider does not stream');
}

/** All chunks of one call in short: texts as they are, attempts as `begin` and `void CODE`, the answer as `done` and its text. */
export async function chunksOf(provider: LLMProvider, params: LLMCallParams = hi): Promise<readonly string[]> {
  return (await lastValueFrom(streamOf(provider, params).pipe(toArray()))).map(inShort);
}

export function inShort(chunk: LLMChunk): string {
  switch (chunk.type) {
    case 'text':
      return chunk.text;
    case 'attempt':
      return chunk.reason === undefined ? chunk.state : `${chunk.state} ${chunk.reason}`;
    case 'done':
      return `done ${String(chunk.response.message.content)}`;
    default:
      return chunk.type;
  }
}

/** The chunks of marble diagrams: `a` and `b` are texts, `r` is reasoning, `d` is the answer. */
export const chunk = {
  a: { type: 'text', text: 'a' },
  b: { type: 'text', text: 'b' },
  r: { type: 'reasoning', text: 'r' },
  d: { type: 'done', response: { message: { role: 'assistant', content: 'answer' } } },
} as const satisfies Record<string, LLMChunk>;

/** The same chunks as `inShort$` gives them. */
export const short = { a: 'a', b: 'b', r: 'reasoning', d: 'done answer', v: 'void PROVIDER_SERVER', n: 'begin' };

/** What the stream of a provider behind a policy gives, in short. */
export function inShort$(provider: LLMProvider): Observable<string> {
  return streamOf(provider).pipe(map(inShort));
}

/** A provider whose calls are these streams, one after the other. */
export function streaming(...streams: readonly Observable<LLMChunk>[]): LLMProvider {
  let calls = 0;
  return {
    info: { model: 'm' },
    call: () => Promise.reject(new Error('only streams are asked for here')),
    stream: () => streams[calls++] ?? throwError(() => new Error(`call ${calls} was not expected`)),
  };
}

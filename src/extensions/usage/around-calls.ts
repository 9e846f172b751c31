import { defer, filter, lastValueFrom, map, type Observable } from 'rxjs';
import type { LLMCallParams, LLMChunk, LLMProvider } from '../../providers/interfaces.ts';
import { sourceOf } from '../../providers/policies/attempt-stream.ts';

/** What stands around the chunks of one model call; asked when the call is made. What it throws is the error of the call. */
export type AroundCall = (chunks: Observable<LLMChunk>, params: LLMCallParams) => Observable<LLMChunk>;

/**
 * A provider with something around each of its calls, for a hook that chooses who makes one. It is asked as before, traces as before,
 * and streams also where the provider does not: then its answer in one piece.
 */
export function aroundCalls(provider: LLMProvider, around: AroundCall): LLMProvider {
  const { info, capabilities = {}, tracesAttempts } = provider;
  const { streaming: _, ...abilities } = capabilities;
  const stream = (params: LLMCallParams) => defer(() => around(sourceOf(provider, params), params));
  return {
    ...(info && { info }),
    capabilities: abilities,
    ...(tracesAttempts !== undefined && { tracesAttempts }),
    stream,
    call: (params) =>
      lastValueFrom(
        stream(params).pipe(
          filter((chunk) => chunk.type === 'done'),
          map(({ response }) => response),
        ),
      ),
  };
}

import { defer, filter, lastValueFrom, map, type Observable } from 'rxjs';
import type { LLMCallParams, LLMChunk, LLMProvider, Usage } from '../../core/contracts/index.ts';
import { ToldUsage } from '../../core/model-call/index.ts';
import { sourceOf } from '../../providers/policies/attempt-stream.ts';

/**
 * What stands around the chunks of one model call; asked when the call is made. What it throws is the error of the call. `told` gives what
 * the provider said by then of requests without an answer; nothing where it leaves that to a guess.
 */
export type AroundCall = (
  chunks: Observable<LLMChunk>,
  params: LLMCallParams,
  told: () => Usage | undefined,
) => Observable<LLMChunk>;

/**
 * A provider with something around each of its calls, for a hook that chooses who makes one. It is asked as before, traces as before,
 * and streams also where the provider does not: then its answer in one piece.
 */
export function aroundCalls(provider: LLMProvider, around: AroundCall): LLMProvider {
  const { info, capabilities = {}, tracesAttempts } = provider;
  const { streaming: _, ...abilities } = capabilities;
  const stream = (params: LLMCallParams) =>
    defer(() => {
      const told = new ToldUsage(params, provider);
      const noteUsage: LLMCallParams['noteUsage'] = (usage) => {
        told.add(usage);
        params.noteUsage?.(usage);
      };
      const answered = (chunk: LLMChunk): LLMChunk =>
        chunk.type === 'done' ? { type: 'done', response: told.answered(chunk.response) } : chunk;
      const chunks = sourceOf(provider, { ...params, noteUsage }).pipe(map(answered));
      return around(chunks, params, () => told.sum);
    });
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

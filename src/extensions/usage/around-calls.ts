import { defer, map, Observable } from 'rxjs';
import type { LLMCallParams, LLMChunk, LLMProvider, LLMResponse, Usage } from '../../core/contracts/index.ts';
import { CallParams, ReportedUsage } from '../../core/model-call/index.ts';
import type { PriceList } from '../../providers/models/model-info.ts';
import { responseOf, sourceOf } from '../../providers/policies/attempt-stream.ts';

/**
 * Wraps the chunks of one model call; called when the call is made. An exception becomes the error of the call. `reported` returns the
 * usage that the provider has reported for requests without an answer, if any.
 */
export type AroundCall = (
  chunks: Observable<LLMChunk>,
  params: LLMCallParams,
  reported: () => Usage | undefined,
) => Observable<LLMChunk>;

/**
 * Wraps the calls of a provider, for a hook that chooses the provider. Parameters and spans are unchanged;
 * it streams even if the provider does not: then the answer is one chunk.
 */
export function aroundCalls(provider: LLMProvider, around: AroundCall): LLMProvider {
  const { info, capabilities = {}, tracesAttempts } = provider;
  const { streaming: _, ...abilities } = capabilities;
  const stream = (params: LLMCallParams) =>
    defer(() => {
      const reported = new ReportedUsage();
      const noteUsage: LLMCallParams['noteUsage'] = (usage) => {
        reported.add(usage);
        params.noteUsage?.(usage);
      };
      const answered = (chunk: LLMChunk): LLMChunk =>
        chunk.type === 'done' ? { type: 'done', response: reported.answered(chunk.response) } : chunk;
      const chunks = sourceOf(provider, CallParams.changed(params, { noteUsage })).pipe(map(answered));
      return around(chunks, params, () => reported.sum);
    });
  return {
    ...(info && { info }),
    capabilities: abilities,
    ...(tracesAttempts !== undefined && { tracesAttempts }),
    stream,
    call: (params) => responseOf(stream(params)),
  };
}

/** How a model call ended, and what its provider reported of its usage. */
export type CallEnd =
  | { readonly type: 'done'; readonly response: LLMResponse; readonly usage: Usage | undefined }
  | { readonly type: 'failed'; readonly error: unknown; readonly usage: Usage | undefined }
  | { readonly type: 'left'; readonly usage: Usage | undefined };

/** Reports once how each call ended: with its answer, its error, or aborted. */
export function watchCall(onEnd: (end: CallEnd) => void): AroundCall {
  return (chunks, _params, reported) =>
    new Observable((to) => {
      let ended = false;
      const end = (how: CallEnd) => {
        if (ended) return;
        ended = true;
        onEnd(how);
      };
      to.add(
        chunks.subscribe({
          next(chunk) {
            if (chunk.type === 'done') end({ type: 'done', response: chunk.response, usage: chunk.response.usage });
            to.next(chunk);
          },
          error(error: unknown) {
            end({ type: 'failed', error, usage: reported() });
            to.error(error);
          },
          complete: () => to.complete(),
        }),
      );
      to.add(() => end({ type: 'left', usage: reported() }));
    });
}

/** The model that answered if its price is known, else the requested one. */
export function pricedModel(
  { answered, asked }: { readonly answered: string | undefined; readonly asked: string | undefined },
  prices: PriceList | undefined,
): string | undefined {
  return answered !== undefined && prices?.find(answered)?.prices ? answered : (asked ?? answered);
}

import { defer, map, Observable } from 'rxjs';
import type { LLMCallParams, LLMChunk, LLMProvider, LLMResponse, Usage } from '../../core/contracts/index.ts';
import { GrowingText } from '../../core/journal/index.ts';
import {
  estimatedUsage,
  ReportedUsage,
  StreamedTokens,
  usageOfAnswer,
  usageWithoutAnswer,
} from '../../core/model-call/index.ts';
import type { PriceList } from '../../providers/models/model-info.ts';
import { responseOf, sourceOf } from '../../providers/policies/attempt-stream.ts';

/**
 * Wraps the chunks of one model call; called when the call is made. An exception becomes the error of the call. `reported` returns the
 * usage that the provider has reported for requests without an answer; `undefined` if it is to be estimated.
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
      const reported = new ReportedUsage(params, provider);
      const noteUsage: LLMCallParams['noteUsage'] = (usage) => {
        reported.add(usage);
        params.noteUsage?.(usage);
      };
      const answered = (chunk: LLMChunk): LLMChunk =>
        chunk.type === 'done' ? { type: 'done', response: reported.answered(chunk.response) } : chunk;
      const chunks = sourceOf(provider, { ...params, noteUsage }).pipe(map(answered));
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

/** How a model call ended, and its usage: as the vendor reported it, else an estimate. */
export type CallEnd =
  | { readonly type: 'done'; readonly response: LLMResponse; readonly usage: Usage }
  | { readonly type: 'failed'; readonly error: unknown; readonly usage: Usage }
  | { readonly type: 'left'; readonly usage: Usage };

/** Reports once how each call ended: with its answer, its error, or aborted. */
export function watchCall(onEnd: (end: CallEnd) => void): AroundCall {
  return (chunks, params, reported) =>
    new Observable((to) => {
      const said = new SaidSoFar();
      let ended = false;
      const end = (how: CallEnd) => {
        if (ended) return;
        ended = true;
        onEnd(how);
      };
      const taken = (error?: unknown) =>
        reported() ?? usageWithoutAnswer(params, said.outputTokens, error) ?? estimatedUsage(0, 0);
      to.add(
        chunks.subscribe({
          next(chunk) {
            said.add(chunk);
            if (chunk.type === 'done') {
              const { response } = chunk;
              end({ type: 'done', response, usage: usageOfAnswer(params, response) });
            }
            to.next(chunk);
          },
          error(error: unknown) {
            end({ type: 'failed', error, usage: taken(error) });
            to.error(error);
          },
          complete: () => to.complete(),
        }),
      );
      to.add(() => end({ type: 'left', usage: taken() }));
    });
}

/** The output of a model call so far. Memory: the text of the current attempt. */
export class SaidSoFar {
  readonly #text = new GrowingText();
  readonly #output = new StreamedTokens();
  #attempt = new StreamedTokens();

  add(chunk: LLMChunk): void {
    if (chunk.type === 'attempt') {
      this.#text.clear();
      this.#attempt = new StreamedTokens();
    }
    if (chunk.type === 'text') this.#text.add(chunk.text);
    if (chunk.type === 'text' || chunk.type === 'reasoning') this.#count(chunk.text);
    if (chunk.type === 'tool-call') this.#count(chunk.arguments ?? '');
  }

  /** Of the current attempt. */
  get text(): string {
    return this.#text.toString();
  }

  /** Of all attempts, with reasoning and arguments. */
  get outputTokens(): number {
    return this.#output.tokens;
  }

  /** Of the current attempt, with reasoning and arguments. */
  get attemptTokens(): number {
    return this.#attempt.tokens;
  }

  #count(text: string): void {
    this.#output.add(text);
    this.#attempt.add(text);
  }
}

/** The model that answered if its price is known, else the requested one. */
export function pricedModel(
  { answered, asked }: { readonly answered: string | undefined; readonly asked: string | undefined },
  prices: PriceList | undefined,
): string | undefined {
  return answered !== undefined && prices?.find(answered)?.prices ? answered : (asked ?? answered);
}

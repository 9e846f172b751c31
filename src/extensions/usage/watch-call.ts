import { Observable } from 'rxjs';
import type { LLMResponse, Usage } from '../../core/contracts/index.ts';
import { estimatedUsage, usageOfAnswer, usageWithoutAnswer } from '../../core/model-call/index.ts';
import type { AroundCall } from './around-calls.ts';
import { SaidSoFar } from './said-so-far.ts';

/** How a model call ended, and what it took: as the vendor says, else a guess. */
export type CallEnd =
  | { readonly type: 'done'; readonly response: LLMResponse; readonly usage: Usage }
  | { readonly type: 'failed'; readonly error: unknown; readonly usage: Usage }
  | { readonly type: 'left'; readonly usage: Usage };

/** Tells once how each call ended: with its answer, its error, or because it was left before. */
export function watchCall(onEnd: (end: CallEnd) => void): AroundCall {
  return (chunks, params, told) =>
    new Observable((to) => {
      const said = new SaidSoFar();
      let ended = false;
      const end = (how: CallEnd) => {
        if (ended) return;
        ended = true;
        onEnd(how);
      };
      const taken = (error?: unknown) =>
        told() ?? usageWithoutAnswer(params, said.outputTokens, error) ?? estimatedUsage(0, 0);
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

import { Observable } from 'rxjs';
import { AgentLoopError } from '../../core/errors.ts';
import type { LLMResponse, Usage } from '../../providers/interfaces.ts';
import { isRefused } from '../../providers/policies/discarded-usage.ts';
import type { AroundCall } from './around-calls.ts';
import { estimatedUsage, SaidSoFar } from './said-so-far.ts';

/** How a model call ended, and what it took: as the vendor says, else a guess. */
export type CallEnd =
  | { readonly type: 'done'; readonly response: LLMResponse; readonly usage: Usage }
  | { readonly type: 'failed'; readonly error: unknown; readonly usage: Usage }
  | { readonly type: 'left'; readonly usage: Usage };

/** Tells once how each call ended: with its answer, its error, or because it was left before. */
export function watchCall(onEnd: (end: CallEnd) => void): AroundCall {
  return (chunks, params) =>
    new Observable((to) => {
      const said = new SaidSoFar();
      let ended = false;
      const end = (how: CallEnd) => {
        if (ended) return;
        ended = true;
        onEnd(how);
      };
      to.add(() => end({ type: 'left', usage: said.usage(params) }));
      to.add(
        chunks.subscribe({
          next(chunk) {
            said.add(chunk);
            if (chunk.type === 'done') {
              const { response } = chunk;
              end({ type: 'done', response, usage: response.usage ?? said.usage(params) });
            }
            to.next(chunk);
          },
          error(error: unknown) {
            const nothing = said.isEmpty && isRefused(AgentLoopError.isInstance(error) ? error : undefined);
            end({ type: 'failed', error, usage: nothing ? estimatedUsage(0, 0) : said.usage(params) });
            to.error(error);
          },
          complete: () => to.complete(),
        }),
      );
    });
}

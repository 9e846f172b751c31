import type { LLMCallParams, Message } from '../core/contracts/index.ts';
import { type FitOptions, type FittedRequest, fitRequest } from './fit-request.ts';
import { itemsNamedBy, RefusedItems } from './refused-items.ts';

/** Gives the request of a call; `messages` in place of its own where an answer is continued. */
export type NextRequest = (continued?: readonly Message[]) => FittedRequest;

/**
 * The requests of one provider, each as its server accepts it: notes what was changed, makes a request that is refused once more without the
 * items that the refusal names, and remembers those once that succeeds.
 */
export class FittedExchange {
  #refused = new RefusedItems();

  /** Whether the server wants the limit of the answer under its newer name. */
  get completionTokens(): boolean {
    return this.#refused.completionTokens;
  }

  /** `request` makes one request, in which nothing is emitted before a refusal. Errors: those of `request`. */
  async *run<T>(
    params: LLMCallParams,
    options: Omit<FitOptions, 'refused' | 'continues'>,
    request: (next: NextRequest) => AsyncGenerator<T>,
  ): AsyncGenerator<T> {
    const fitWithout =
      (refused: RefusedItems): NextRequest =>
      (continued) => {
        const messages = continued ?? params.messages;
        const fitted = fitRequest({ ...params, messages }, { ...options, refused, continues: continued !== undefined });
        if (fitted.changes.length > 0) params.note?.({ kind: 'request-fitted', changes: fitted.changes });
        return fitted;
      };
    try {
      yield* request(fitWithout(this.#refused));
      return;
    } catch (refusal) {
      const refused = itemsNamedBy(refusal, params, this.#refused);
      if (refused === undefined) throw refusal;
      const before = this.#refused;
      this.#refused = refused;
      try {
        yield* request(fitWithout(refused));
      } catch (error) {
        this.#refused = before;
        throw error;
      }
    }
  }
}

import type { LLMCallParams, Message } from '../core/contracts/index.ts';
import { type FitOptions, type FittedRequest, fitRequest } from './fit-request.ts';
import { itemsNamedBy, RefusedItems } from './refused-items.ts';

/** Gives the request of a call; `messages` in place of its own where an answer is continued. */
export type NextRequest = (continued?: readonly Message[]) => FittedRequest;

/** Of how many models one provider remembers what their server refused. */
const mostModels = 200;

/**
 * The requests of one provider, each as its server accepts it: notes what was changed, makes a request that is refused once more without the
 * items that the refusal names, and remembers those for the same model once that succeeds.
 */
export class FittedExchange {
  readonly #refused = new Map<string, RefusedItems>();

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
    const known = this.#knownOf(params);
    try {
      yield* request(fitWithout(known));
      return;
    } catch (refusal) {
      const refused = itemsNamedBy(refusal, params, known);
      if (refused === undefined) throw refusal;
      let isAccepted = false;
      for await (const answer of request(fitWithout(refused))) {
        if (!isAccepted) this.#remember(refusal, params);
        isAccepted = true;
        yield answer;
      }
    }
  }

  #knownOf({ model = '' }: LLMCallParams): RefusedItems {
    return this.#refused.get(model) ?? new RefusedItems();
  }

  /** Beside what other calls have found out meanwhile. */
  #remember(refusal: unknown, params: LLMCallParams): void {
    const { model = '' } = params;
    const refused = itemsNamedBy(refusal, params, this.#knownOf(params));
    if (refused === undefined) return;
    this.#refused.delete(model);
    this.#refused.set(model, refused);
    const [oldest] = this.#refused.keys();
    if (this.#refused.size > mostModels && oldest !== undefined) this.#refused.delete(oldest);
  }
}

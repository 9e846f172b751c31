import { Observable } from 'rxjs';
import {
  AgentLoopError,
  type LLMCallParams,
  type LLMChunk,
  type LLMResponse,
  type Message,
} from '../core/contracts/index.ts';
import { type FitOptions, type FittedRequest, fitRequest } from './fit-request.ts';
import { fromAsyncIterable } from './from-async-iterable.ts';
import { UsageReader } from './read-usage.ts';
import { itemsNamedBy, RefusedItems } from './refused-items.ts';

/** Gives the request of a call; `messages` in place of its own where an answer is continued. */
export type NextRequest = (continued?: readonly Message[]) => FittedRequest;

/** What a request of an exchange uses. */
export interface RequestScope {
  readonly next: NextRequest;
  /** Takes everything that the server sends about usage. */
  readonly usage: UsageReader;
  /** Aborted when the subscriber leaves; absent where the answer is not streamed. */
  readonly unsubscribed: AbortSignal | undefined;
}

/** A model call, and how its provider makes a request. */
export interface Exchange {
  readonly params: LLMCallParams;
  readonly options: Omit<FitOptions, 'refused' | 'continues'>;
  /** Makes one request: the chunks of each piece of the answer, `done` last. Emits nothing before a refusal. */
  readonly request: (scope: RequestScope) => AsyncGenerator<readonly LLMChunk[]>;
}

/** Of how many models one provider remembers what their server refused. */
const mostModels = 200;

/**
 * The requests of one provider, each as its server accepts it: notes what was changed, makes a request that is refused once more without the
 * items that the refusal names, and remembers those for the same model once that succeeds. What the server said of the usage of a request that
 * gets no answer, because it fails or the caller leaves, is reported once with `noteUsage`.
 */
export class FittedExchange {
  readonly #refused = new Map<string, RefusedItems>();

  /** The answer of an exchange that is not streamed. Errors: those of its requests. */
  async call(exchange: Exchange): Promise<LLMResponse> {
    const unanswered = new UnansweredUsage(exchange.params);
    try {
      for await (const chunks of this.#run(exchange, unanswered)) {
        for (const chunk of chunks) if (unanswered.saw(chunk)) return chunk.response;
      }
    } finally {
      unanswered.report();
    }
    throw new AgentLoopError('INTERNAL', 'An exchange with a model server ended without a response.');
  }

  /** The chunks of an exchange that is streamed. Unsubscribing aborts its request. Errors: those of its requests. */
  stream(exchange: Exchange): Observable<LLMChunk> {
    return new Observable((subscriber) => {
      const unanswered = new UnansweredUsage(exchange.params);
      const run = fromAsyncIterable(({ signal }) => this.#run(exchange, unanswered, signal));
      subscriber.add(() => unanswered.report());
      return run.subscribe({
        // Written by hand: it stands on the path of every token.
        next: (chunks) => {
          for (const chunk of chunks) {
            unanswered.saw(chunk);
            subscriber.next(chunk);
          }
        },
        error: (error: unknown) => {
          unanswered.report();
          subscriber.error(error);
        },
        complete: () => subscriber.complete(),
      });
    });
  }

  async *#run(
    { params, options, request }: Exchange,
    unanswered: UnansweredUsage,
    unsubscribed?: AbortSignal,
  ): AsyncGenerator<readonly LLMChunk[]> {
    const fitWithout =
      (refused: RefusedItems): NextRequest =>
      (continued) => {
        const messages = continued ?? params.messages;
        const fitted = fitRequest({ ...params, messages }, { ...options, refused, continues: continued !== undefined });
        if (fitted.changes.length > 0) params.note?.({ kind: 'request-fitted', changes: fitted.changes });
        return fitted;
      };
    const requestWithout = (refused: RefusedItems) =>
      request({ next: fitWithout(refused), usage: unanswered.begin(), unsubscribed });
    const known = this.#knownOf(params);
    try {
      yield* requestWithout(known);
      return;
    } catch (refusal) {
      const refused = itemsNamedBy(refusal, params, known);
      if (refused === undefined) throw refusal;
      let isAccepted = false;
      for await (const answer of requestWithout(refused)) {
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

/** What a server said of the usage of the current request, until its answer has arrived. */
class UnansweredUsage {
  readonly #params: LLMCallParams;
  #reader: UsageReader | undefined;

  constructor(params: LLMCallParams) {
    this.#params = params;
  }

  /** The next request starts: the one before it was refused. */
  begin(): UsageReader {
    this.report();
    this.#reader = new UsageReader();
    return this.#reader;
  }

  /** Whether the chunk is the answer, which contains its usage. */
  saw(chunk: LLMChunk): chunk is Extract<LLMChunk, { type: 'done' }> {
    const isAnswer = chunk.type === 'done';
    if (isAnswer) this.#reader = undefined;
    return isAnswer;
  }

  /** No answer comes any more. Reports nothing a second time. */
  report(): void {
    const usage = this.#reader?.usage;
    this.#reader = undefined;
    if (usage) this.#params.noteUsage?.(usage);
  }
}

import { concat, defer, EMPTY, from, mergeMap, type Observable, throwError } from 'rxjs';
import { AgentLoopError, type LLMCallParams, type LLMChunk } from '../../core/contracts/index.ts';
import { redactMembers } from '../../redaction/redact-members.ts';
import { difference, shown } from '../../replay/deviation.ts';
import { aFunction, assertGiven, assertOptions, aText } from './policy-options.ts';
import { definePolicy, type ProviderPolicy } from './provider-policy.ts';
import { keyOf, requestOf } from './request-key.ts';
import { type RecordedError, type RecordedExchange, readResponses } from './response-cassette.ts';

export interface ReplayResponsesOptions {
  /** A cassette that `recordResponses` wrote. Read at the first request. */
  readonly path: string;
  /** The one that it was recorded with. Default: the text as it is. */
  readonly redact?: ((text: string) => string) | undefined;
}

/**
 * Answers from a cassette, chunk by chunk and failure by failure, and never asks the provider. Which model is asked does not matter, nor
 * do ids and times; requests are found by what they ask. Equal requests are answered in the order of their recording. A request that was
 * not recorded, or not so often, is `DEVIATION`, naming the first difference; a cassette that cannot be read `NOT_FOUND` or
 * `INVALID_INPUT`. What was played belongs to what this gives. Memory: the cassette. Errors: `INVALID_CONFIG`, naming the option.
 */
export function replayResponses(options: ReplayResponsesOptions): ProviderPolicy {
  assertOptions('replayResponses', options, { path: aText, redact: aFunction });
  assertGiven('replayResponses', 'path', options.path, 'give the file that recordResponses wrote');
  const { path, redact = (text) => text } = options;
  let player: Promise<Player> | undefined;
  const load = (): Promise<Player> => {
    player ??= readResponses(path).then((exchanges) => new Player(path, exchanges));
    return player;
  };
  return definePolicy(
    'replayResponses',
    () => (params) => defer(() => from(load()).pipe(mergeMap((loaded) => loaded.play(askedOf(params, redact))))),
  );
}

/** As it was recorded: without secrets, and as JSON. */
function askedOf(params: LLMCallParams, redact: (text: string) => string): unknown {
  return JSON.parse(JSON.stringify(redactMembers(requestOf(params), redact)));
}

/** The exchanges of a cassette that are still to come. */
class Player {
  readonly #path: string;
  readonly #left: { readonly key: string; readonly exchange: RecordedExchange; readonly line: number }[];

  constructor(path: string, exchanges: readonly RecordedExchange[]) {
    this.#path = path;
    this.#left = exchanges.map((exchange, index) => ({ key: keyOf(exchange.request), exchange, line: index + 2 }));
  }

  play(asked: unknown): Observable<LLMChunk> {
    const key = keyOf(asked);
    const place = this.#left.findIndex((each) => each.key === key);
    const [found] = place === -1 ? [] : this.#left.splice(place, 1);
    if (found === undefined) return throwError(() => this.#deviation(asked));
    const { chunks, error } = found.exchange;
    return concat(chunks, error ? throwError(() => failureOf(error)) : EMPTY);
  }

  #deviation(asked: unknown): AgentLoopError {
    const [next] = this.#left;
    const found = next && difference(next.exchange.request, asked);
    const how = found
      ? `it differs from the one of line ${next.line} at ${found.path}: expected ${shown(found.expected)}, got ${shown(found.got)}`
      : 'all that was recorded has been played';
    return new AgentLoopError(
      'DEVIATION',
      `The request is not in the cassette "${this.#path}": ${how}; record it again where that is meant.`,
    );
  }
}

function failureOf({ code, message, ...options }: RecordedError): AgentLoopError {
  return new AgentLoopError(code, message, options);
}

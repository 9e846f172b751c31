import type OpenAI from 'openai';
import { type Clock, missingPackage } from '../../core/contracts/index.ts';
import { RequestWatch } from './request-watch.ts';
import { httpError, type ModelServer, networkError } from './wire-errors.ts';

export type Fetch = typeof globalThis.fetch;

interface WatchedFetchOptions {
  readonly server: ModelServer;
  readonly clock: Clock;
  /** Default: the global one, looked up at each request, so that instrumentation of it counts. */
  readonly fetch?: Fetch | undefined;
}

/**
 * A `fetch` for the `openai` package that runs under the {@link RequestWatch} in its `init`: it gives only answers with a
 * good status, and turns everything else into a coded error, also kept as the watch's `failure` because the package wraps
 * what it catches.
 */
export function watchedFetch({ server, clock, fetch }: WatchedFetchOptions): Fetch {
  return async (url, init) => {
    const watch = watchIn(init);
    try {
      const send = fetch ?? globalThis.fetch;
      const response = await send(url, { ...init, signal: watch.signal });
      watch.opened(response.headers.get('content-type'));
      if (response.ok) return response;
      const text = await textOf(response, watch);
      const { status, headers } = response;
      throw httpError(server, { status, headers, text, now: clock.now() });
    } catch (error) {
      throw watch.fail(networkError(server, error));
    }
  };
}

function watchIn(init: object | undefined): RequestWatch {
  if (init !== undefined && 'watch' in init && init.watch instanceof RequestWatch) return init.watch;
  throw new Error('A request of the openai package came without its watch.');
}

/** The body so far of a failed response. */
async function textOf(response: Response, watch: RequestWatch): Promise<string> {
  const pieces: Uint8Array[] = [];
  if (response.body !== null) {
    for await (const piece of response.body) {
      watch.received(piece);
      pieces.push(piece);
    }
  }
  return Buffer.concat(pieces).toString('utf8');
}

type OpenAIPackage = { readonly OpenAI: typeof OpenAI };

/** Bundlers refuse the import of a package that is not installed, unless it stands in a `try`. */
async function installedPackage(): Promise<OpenAIPackage> {
  try {
    return await import('openai');
  } catch (cause) {
    return rethrow(cause);
  }
}

function rethrow(cause: unknown): never {
  throw cause;
}

let load: () => Promise<OpenAIPackage> = installedPackage;

/** Loads the class of the client. Errors: `MISSING_PACKAGE`. */
export async function loadOpenAI(): Promise<typeof OpenAI> {
  try {
    return (await load()).OpenAI;
  } catch (cause) {
    throw missingPackage('openai', cause);
  }
}

/** From now on this process uses another copy of the package: the command brings its own. */
export function useOpenAI(bundled: () => Promise<OpenAIPackage>): void {
  load = bundled;
}

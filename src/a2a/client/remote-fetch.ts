import { type BodyLimits, boundedResponse } from '../../core/model-call/index.ts';
import { failure, httpFailure, type RemoteName } from './remote-errors.ts';
import type { RemoteHeaders } from './remote-options.ts';

export interface RemoteFetchOptions {
  readonly name: RemoteName;
  readonly headers: RemoteHeaders;
  readonly origins: ReadonlySet<string>;
  readonly limits: BodyLimits;
  /** Told what a request is authorized by, so that no error shows it. */
  readonly onSecrets: (secrets: readonly string[]) => void;
}

/**
 * A `fetch` that authorizes its requests, and that follows no redirect: credentials go to the origins that were named, and nowhere else.
 * An answer that is too large is an error; one that is none of the protocol becomes an error of its HTTP status.
 */
export function remoteFetch({ name, headers, origins, limits, onSecrets }: RemoteFetchOptions): typeof fetch {
  return async (input, init = {}) => {
    const request = new Request(input, { ...init, redirect: 'manual' });
    const { origin } = new URL(request.url);
    if (!origins.has(origin)) {
      throw failure(
        name,
        'PROVIDER_PROTOCOL',
        `says that it is found at ${origin}: add that to origins if it is right`,
      );
    }
    const own = await before(request.signal, headers());
    onSecrets(Object.values(own));
    for (const [header, value] of Object.entries(own)) request.headers.set(header, value);
    const tooLarge = (what: string) => failure(name, 'PROVIDER_TOO_LARGE', what);
    const response = boundedResponse(await fetch(request), limits, tooLarge);
    if (response.ok || (isJson(response) && !isRefused(response.status) && !isAway(response.status))) return response;
    await response.body?.cancel();
    throw httpFailure(name, response.status);
  };
}

/** What is waited for, unless the request is given up first. */
export async function before<T>(signal: AbortSignal, given: T | Promise<T>): Promise<T> {
  if (!(given instanceof Promise)) return given;
  signal.throwIfAborted();
  let leave = () => {};
  const left = new Promise<never>((_, reject) => {
    leave = () => reject(signal.reason);
    signal.addEventListener('abort', leave);
  });
  return Promise.race([given, left]).finally(() => signal.removeEventListener('abort', leave));
}

function isJson(response: Response): boolean {
  return response.status >= 400 && /[/+]json\b/.test(response.headers.get('content-type') ?? '');
}

function isRefused(status: number): boolean {
  return status === 401 || status === 403 || status === 429;
}

/** A server that starts, stops or is down has not read the request, whatever stands in the body. */
function isAway(status: number): boolean {
  return status === 502 || status === 503 || status === 504;
}

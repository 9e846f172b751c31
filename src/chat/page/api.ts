import type { UIChunk } from '../../ui/ui-chunks.ts';
import { eventsOf, UnreachableError } from './server-sent-events.ts';

/** A message as the server gives it, and as the page shows it. */
export interface Message {
  readonly id: string;
  readonly role: 'user' | 'assistant';
  readonly parts: readonly Part[];
  readonly metadata?: Readonly<Record<string, unknown>>;
}

export type Part = Readonly<Record<string, unknown>>;

/** The server has understood, and says no. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Of this tab, so that a key outlives neither it nor a restart of the browser. */
const keyItem = 'millrace.chat.key';

/** The requests of `uiMessageHandler`. Errors of all: `RefusedError`, `UnreachableError`, the reason of the signal. */
export class Api {
  readonly #base: string;

  constructor(base: string) {
    this.#base = base;
  }

  useKey(key: string): void {
    sessionStorage.setItem(keyItem, key);
  }

  /** The messages of a chat; none for one that the server does not know. `version`: the id of one of them, whose branch is given. */
  async messages(chat: string, signal: AbortSignal, version = ''): Promise<readonly Message[]> {
    const query = version && `?version=${encodeURIComponent(version)}`;
    return (await this.#ask(`/${encodeURIComponent(chat)}/messages${query}`, { signal })).json();
  }

  /** The stream of what a post starts or continues. */
  post(body: object, signal: AbortSignal): Promise<Response> {
    return this.#ask('', { method: 'POST', body: JSON.stringify(body), signal });
  }

  /** The stream of the open turn from its beginning; `undefined` where none is open. */
  async resume(chat: string, signal: AbortSignal): Promise<Response | undefined> {
    const response = await this.#ask(`/${encodeURIComponent(chat)}/stream`, { signal });
    return response.status === 204 ? undefined : response;
  }

  async stop(chat: string): Promise<void> {
    await this.#ask(`/${encodeURIComponent(chat)}/stop`, { method: 'POST', body: '{}' });
  }

  async #ask(path: string, init: RequestInit): Promise<Response> {
    const key = sessionStorage.getItem(keyItem);
    const headers = {
      ...(init.body !== undefined && { 'content-type': 'application/json' }),
      ...(key !== null && { authorization: `Bearer ${key}` }),
    };
    let response: Response;
    try {
      response = await fetch(`${this.#base}${path}`, { ...init, headers });
    } catch (cause) {
      if (init.signal?.aborted) throw cause;
      throw new UnreachableError('The server cannot be reached.', { cause });
    }
    if (response.ok) return response;
    if ([429, 502, 503, 504].includes(response.status))
      throw new UnreachableError('The server is busy.', { isBusy: response.status === 429 });
    const told: { readonly error?: { readonly message?: unknown } } = await response.json().catch(() => ({}));
    const message =
      typeof told.error?.message === 'string' ? told.error.message : `The server answered ${response.status}.`;
    throw new RefusedError(response.status, message);
  }
}

/** The chunks of a stream, to its end. */
export async function* chunksOf(response: Response): AsyncGenerator<UIChunk> {
  for await (const data of eventsOf(response)) {
    if (data === '[DONE]') return;
    yield JSON.parse(data);
  }
}

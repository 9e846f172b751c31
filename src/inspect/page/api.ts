import type { RowsEvent } from '../wire.ts';

/** Where the inspector is mounted: the page's script is beside its API. */
const base = new URL('.', import.meta.url);
const tokenName = `millrace-token ${base.pathname}`;

/** Moves the token of this start out of the address, where it would stay in the history. */
export function takeToken(): void {
  const [, token] = /^#token=([\w-]+)/.exec(location.hash) ?? [];
  if (token === undefined) return;
  sessionStorage.setItem(tokenName, token);
  history.replaceState(null, '', `${location.pathname}#/`);
}

/** An answer that is no good one: its sentence is for the reader. */
export class ApiError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const token = sessionStorage.getItem(tokenName);
  const authorization = token === null ? undefined : { authorization: `Bearer ${token}` };
  const response = await fetch(new URL(`api/${path}`, base), {
    ...init,
    headers: { ...authorization, ...init.headers },
  }).catch((error: unknown) => {
    if (init.signal?.aborted) throw error;
    throw new ApiError(0, 'The inspector does not answer. It may have been stopped.');
  });
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({}));
  if (response.status === 401)
    throw new ApiError(401, 'Open the address that the inspector printed when it started: it contains the key.');
  throw new ApiError(response.status, error?.message ?? `The inspector answered ${response.status}.`);
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await request(path, signal ? { signal } : {})).json();
}

export async function text(path: string): Promise<string> {
  return (await request(path)).text();
}

export async function post<T>(path: string, body: object): Promise<T> {
  const headers = { 'content-type': 'application/json' };
  return (await request(path, { method: 'POST', body: JSON.stringify(body), headers })).json();
}

/** The rows of a turn, from the first, until it ends or the signal is aborted. A broken connection is made anew. */
export async function follow(taskId: string, on: (event: RowsEvent) => void, signal: AbortSignal): Promise<void> {
  for (;;) {
    try {
      const { body } = await request(`${taskPath(taskId)}/rows`, { signal });
      const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) {
        const frames = (rest + next.value).split('\n\n');
        rest = frames.pop() ?? '';
        for (const frame of frames) {
          if (!frame.startsWith('data: ')) continue;
          const event: RowsEvent = JSON.parse(frame.slice('data: '.length));
          on(event);
          if (event.type === 'end') return;
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.status >= 400 && error.status < 500) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    if (signal.aborted) return;
  }
}

export function taskPath(taskId: string): string {
  return `tasks/${encodeURIComponent(taskId)}`;
}

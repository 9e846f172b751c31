import { RefusedError, UnreachableError } from './errors.ts';
import { eventsOf } from './server-sent-events.ts';
import { type StreamResponse, toolEventsExtension, turnExtension } from './wire.ts';

export interface StreamOptions {
  readonly signal: AbortSignal;
  /** The cursor after which the stream resumes. Default: the stream begins with the current task. */
  readonly cursor?: string | undefined;
}

const endpoint = '/a2a/jsonrpc';
let requests = 0;

/** The name of the agent, as its card has it. */
export async function agentName(): Promise<string> {
  const response = await fetch('/.well-known/agent-card.json', { headers: { 'A2A-Version': '1.0' } });
  const card: { readonly name: string } = await response.json();
  return card.name;
}

export async function call<T>(method: string, params: object): Promise<T> {
  const response = await post(method, params);
  const { result, error }: Answer<T> = await response.json().catch(unreachable);
  if (error) throw new RefusedError(error.code, error.message);
  return result as T;
}

/** The updates of a stream as they come. Errors: `RefusedError`, `UnreachableError`; the signal's reason. */
export async function* stream(
  method: string,
  params: object,
  { signal, cursor }: StreamOptions,
): AsyncGenerator<StreamResponse> {
  const response = await post(method, params, { signal, ...(cursor !== undefined && { cursor }) });
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
    const { error }: Answer<never> = await response.json().catch(unreachable);
    throw error ? new RefusedError(error.code, error.message) : new UnreachableError();
  }
  for await (const data of eventsOf(response)) {
    const { result, error }: Answer<StreamResponse> = JSON.parse(data);
    if (error)
      throw error.code === internalError ? new UnreachableError() : new RefusedError(error.code, error.message);
    if (result) yield result;
  }
}

interface Answer<T> {
  readonly result?: T;
  readonly error?: { readonly code: number; readonly message: string };
}

/** The error of a server that shuts down during a stream: the task continues. */
const internalError = -32603;

async function post(method: string, params: object, options: Partial<StreamOptions> = {}): Promise<Response> {
  const { signal, cursor } = options;
  const response = await fetch(endpoint, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      'A2A-Version': '1.0',
      'A2A-Extensions': `${turnExtension}, ${toolEventsExtension}`,
      ...(cursor !== undefined && { 'Millrace-Cursor': cursor }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: ++requests, method, params }),
    ...(signal && { signal }),
  }).catch(unreachable);
  if (response.status === 401)
    throw new RefusedError(401, 'The server wants a key: give it to the page as MILLRACE_KEY.');
  if (response.status === 429 || response.status >= 500) throw new UnreachableError();
  return response;
}

function unreachable(error: unknown): never {
  if (error instanceof DOMException && error.name === 'AbortError') throw error;
  throw new UnreachableError('The server cannot be reached.', { cause: error });
}

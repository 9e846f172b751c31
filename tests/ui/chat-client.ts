import type { FetchHandler, UIChunk } from 'millrace/ui';
import { dataOf } from './frames.ts';

/** A message as `useChat` posts it. */
export interface PostedMessage {
  readonly id: string;
  readonly role: 'user' | 'assistant';
  readonly parts: readonly Readonly<Record<string, unknown>>[];
}

export const said = (id: string, text: string): PostedMessage => ({
  id,
  role: 'user',
  parts: [{ type: 'text', text }],
});

/** The assistant's message with the answer to an approval, as the client keeps it. */
export const approval = (id: string, approved: boolean): PostedMessage => ({
  id: 'any',
  role: 'assistant',
  parts: [{ type: 'dynamic-tool', state: 'approval-responded', toolCallId: id, approval: { id, approved } }],
});

/** Asks a handler as a client of a user does. */
export class ChatClient {
  readonly #handler: FetchHandler;
  readonly #user: string;

  constructor(handler: FetchHandler, user = 'ann') {
    this.#handler = handler;
    this.#user = user;
  }

  post(id: string, message: PostedMessage, body: object = {}): Promise<Response> {
    return this.ask('POST', '', { id, messages: [message], trigger: 'submit-message', ...body });
  }

  ask(method: string, path: string, body?: unknown): Promise<Response> {
    const headers = { 'content-type': 'application/json', 'x-user': this.#user };
    const url = `https://app.example/api/chat${path}`;
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    return this.#handler(new Request(url, { method, headers, ...(body === undefined ? {} : { body: text }) }));
  }
}

export const scopeOf = (request: Request): string | undefined => request.headers.get('x-user') || undefined;

export async function chunksOf(response: Response): Promise<readonly UIChunk[]> {
  return JSON.parse(`[${dataOf(await response.text()).join(',')}]`);
}

/** The code of a refusal. */
export async function codeOf(response: Response): Promise<unknown> {
  const { error }: { readonly error: { readonly code: unknown } } = JSON.parse(await response.text());
  return error.code;
}

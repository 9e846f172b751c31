import { AgentLoopError, type ContentPart, type ErrorCode, isObject } from '../core/contracts/index.ts';
import { readJson } from '../json-body.ts';
import { isWebAddress, webAddressRule } from '../web-address.ts';
import { sentenceOf } from './stream-options.ts';

/** Why a request is refused before there is a stream. Its sentence is shown to the client. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  /** Whether a turn may exist that the request started or answered. */
  readonly mayHaveRun: boolean;

  constructor(status: number, code: string, message: string, { mayHaveRun = false } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.mayHaveRun = mayHaveRun;
  }
}

/** The same for what is unknown and for what belongs to somebody else. */
export function notFound(): Refusal {
  return refusalFor('NOT_FOUND');
}

/** With the sentence of the code. */
export function refusalFor(code: ErrorCode): Refusal {
  return new Refusal(statuses[code] ?? 500, code, sentenceOf({ code }));
}

export function malformed(message: string): Refusal {
  return new Refusal(400, 'INVALID_INPUT', message);
}

const statuses: Partial<Record<ErrorCode, number>> = {
  INVALID_INPUT: 400,
  NOT_FOUND: 404,
  CONFLICT: 409,
  TERMINAL: 409,
  AGENT_BUSY: 409,
  BUSY: 409,
  FULL: 507,
  UNAVAILABLE: 503,
  SHUTDOWN: 503,
};

/** An error of a turn before its first event: the turn may exist. */
export class BeginFailure extends Error {}

/** As a refusal: of an error of the engine only its code leaves. */
export function refusalOf(thrown: unknown, errorText: (error: { readonly code: ErrorCode }) => string): Refusal {
  if (thrown instanceof Refusal) return thrown;
  const mayHaveRun = thrown instanceof BeginFailure;
  const error = mayHaveRun ? thrown.cause : thrown;
  const code = AgentLoopError.isInstance(error) ? error.code : 'INTERNAL';
  return new Refusal(statuses[code] ?? 500, code, errorText({ code }), { mayHaveRun });
}

export const noStore = { 'cache-control': 'no-store' };

export function refused({ status, code, message }: Refusal): Response {
  return Response.json({ error: { code, message } }, { status, headers: noStore });
}

/**
 * The body of a request as an object. Errors: `Refusal` with 415 where it is not JSON by its type, so that no form of another site can post it, 413 where
 * it is larger, 400 where it is not a JSON object, nests too deep or has too many values.
 */
export async function jsonBody(request: Request, maxBytes: number): Promise<Readonly<Record<string, unknown>>> {
  if (!/^application\/json(;|$)/i.test(request.headers.get('content-type') ?? ''))
    throw new Refusal(415, 'INVALID_INPUT', 'The content type must be application/json.');
  const read = await readJson(chunksOf(request.body), { maxBytes, declared: request.headers.get('content-length') });
  if ('fault' in read) {
    if (read.fault === 'bytes') throw new Refusal(413, 'INVALID_INPUT', `The body is larger than ${maxBytes} bytes.`);
    throw malformed(
      read.fault === 'syntax' ? 'The body is not JSON.' : 'The body nests too deep, or has too many values.',
    );
  }
  if (!isObject(read.value)) throw malformed('The body must be a JSON object.');
  return read.value;
}

/** Does not cancel a body of which the rest is not read: servers of Node.js would close the connection before the answer is sent. */
async function* chunksOf(body: Request['body']): AsyncGenerator<Uint8Array, void> {
  const reader = body?.getReader();
  for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) yield next.value;
}

const maxIdLength = 256;

/** An id that a client chose. Errors: `Refusal`. */
export function checkedId(name: string, value: unknown): string {
  if (typeof value === 'string' && value !== '' && value.length <= maxIdLength) return value;
  throw malformed(`${name} must be a string of 1 to ${maxIdLength} characters.`);
}

/** The messages of a post. Errors: `Refusal` with 400. */
export function checkedMessages(messages: unknown, most: number): readonly Readonly<Record<string, unknown>>[] {
  if (!Array.isArray(messages) || !messages.every(isObject)) throw malformed('messages must be an array of messages.');
  if (messages.length > most) throw malformed(`messages has more than ${most} entries.`);
  return messages;
}

/** What the model reads of the parts of a message. Errors: `Refusal` with 400, also where that is nothing. */
export function contentOfParts(
  parts: readonly unknown[],
  contentOf: (part: Readonly<Record<string, unknown>>) => readonly ContentPart[],
): readonly ContentPart[] {
  const content = parts.flatMap((part) => {
    if (!isObject(part)) throw malformed('A part of the message must be an object.');
    return contentOf(part);
  });
  if (content.length === 0) throw malformed('The message is empty.');
  return content;
}

export function noContent(): Response {
  return new Response(null, { status: 204 });
}

export function methodNotAllowed(): Refusal {
  return new Refusal(405, 'INVALID_INPUT', 'The method is not allowed here.');
}

/** A file of a message as the model reads it. Errors: `Refusal` for an image that is neither of `https` nor its own data, and for another file without its data. */
export function filePart(url: string, isImage: boolean, filename?: unknown): ContentPart {
  const isData = url.startsWith('data:');
  if (isImage) {
    if (isData && !/^data:image\//i.test(url)) throw malformed('The data URL of an image must begin with data:image/.');
    if (!isData && !isWebAddress(url)) throw malformed(webAddressRule);
    return { type: 'image_url', image_url: { url } };
  }
  if (!isData) throw malformed('A file must be an image, or a data URL.');
  return { type: 'file', file: { file_data: url, ...(typeof filename === 'string' ? { filename } : {}) } };
}

/** A digest of names as an id that every store takes: 43 characters. Not of `node:crypto`, which browsers and edge functions lack. */
export async function digestOf(...names: readonly string[]): Promise<string> {
  const bytes = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(JSON.stringify(names)));
  const text = btoa(String.fromCharCode(...new Uint8Array(bytes)));
  return text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

import type { ErrorCode, Usage } from '../../core/contracts/index.ts';
import { noStore, type Refusal } from '../requests.ts';

/** An error as clients of OpenAI read it. */
export interface WireError {
  readonly message: string;
  readonly type: 'invalid_request_error' | 'authentication_error' | 'server_error';
  readonly param: string | null;
  readonly code: string | null;
}

/** Of an error of a turn only its code leaves, and the sentence for it. */
export function wireErrorOf(code: ErrorCode, errorText: (error: { readonly code: ErrorCode }) => string): WireError {
  return { message: errorText({ code }), type: 'server_error', param: null, code };
}

export function refusedAs(refusal: Refusal, param: string | null = null): Response {
  const { status, code, message, mayHaveRun } = refusal;
  const type = status === 401 ? 'authentication_error' : status < 500 ? 'invalid_request_error' : 'server_error';
  const error = { message, type, param, code } as const;
  if (mayHaveRun && status !== 404) return failed(error);
  // No turn exists; a repeated request finds as little room.
  return errorResponse(status, error, code === 'FULL' ? noRetry : {});
}

/** Read by the `openai` packages alone. */
export const noRetry = { 'x-should-retry': 'false' };

/**
 * An error after which a turn may exist, which would run twice if a client repeated the request. 400 is the one status of an error that no family of clients repeats: they repeat 408,
 * 409, 429 and 5xx, and LangChain all that it does not list. What failed is said by `type` and `code`.
 */
export function failed(error: WireError): Response {
  return errorResponse(400, error, noRetry);
}

function errorResponse(status: number, error: WireError, headers: Readonly<Record<string, string>>): Response {
  return Response.json({ error }, { status, headers: { ...noStore, ...headers } });
}

const noUsage: Usage = { promptTokens: 0, completionTokens: 0, totalTokens: 0 };

export function chatUsage(usage = noUsage) {
  const { promptTokens, completionTokens, totalTokens, cachedTokens = 0, reasoningTokens = 0 } = usage;
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: totalTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
    completion_tokens_details: { reasoning_tokens: reasoningTokens },
  };
}

export function responseUsage(usage = noUsage) {
  const {
    promptTokens,
    completionTokens,
    totalTokens,
    cachedTokens = 0,
    cacheWriteTokens = 0,
    reasoningTokens = 0,
  } = usage;
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: cacheWriteTokens },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: totalTokens,
  };
}

/**
 * Streamed text: pieces that were sent cannot be taken back. When the model is asked again, what repeats the sent text is not sent again. A piece is compared
 * only with the part of the sent text at its position, so the cost grows linearly with the text.
 */
export class SentText {
  readonly #isStreamed: boolean;
  /** What was sent before the last restart. */
  #before = '';
  #text = '';
  #differs = false;

  /** `isStreamed`: whether pieces are sent, not the text once it is whole. */
  constructor(isStreamed: boolean) {
    this.#isStreamed = isStreamed;
  }

  /** The text as it stands. */
  get text(): string {
    return this.#text;
  }

  get isUnsent(): boolean {
    return !this.#isStreamed || (this.#before === '' && this.#text === '');
  }

  /** What of a piece is to be sent; `undefined` where the text differs from what was sent. */
  add(piece: string): string | undefined {
    const at = this.#text.length;
    this.#text += piece;
    if (!this.#isStreamed) return piece;
    const repeated = this.#before.slice(at, at + piece.length);
    this.#differs ||= !piece.startsWith(repeated);
    return this.#differs ? undefined : piece.slice(repeated.length);
  }

  /** What follows is the text from its beginning. */
  restart(): void {
    if (!this.#differs && this.#text.length > this.#before.length) this.#before = this.#text;
    this.#text = '';
    this.#differs = false;
  }

  /** Whether all that was sent stands. */
  get stands(): boolean {
    return !this.#isStreamed || (!this.#differs && this.#text.length >= this.#before.length);
  }
}

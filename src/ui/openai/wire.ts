import type { ErrorCode, Usage } from '../../core/contracts/index.ts';
import type { Refusal } from '../requests.ts';

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

/** `mayHaveRun`: whether a turn may exist, so that no client may send the request again by itself. */
export function refusedAs(
  { status, code, message }: Refusal,
  { param = null, mayHaveRun }: { readonly param?: string | null; readonly mayHaveRun: boolean },
): Response {
  const type = status === 401 ? 'authentication_error' : status < 500 ? 'invalid_request_error' : 'server_error';
  return errorResponse(status, { message, type, param, code }, mayHaveRun ? noRetry : {});
}

export const noRetry = { 'x-should-retry': 'false' };

/** No client may send a turn that ran once more: it would run twice. */
export function failed(error: WireError): Response {
  return errorResponse(500, error, noRetry);
}

function errorResponse(status: number, error: WireError, headers: Readonly<Record<string, string>>): Response {
  return Response.json({ error }, { status, headers: { 'cache-control': 'no-store', ...headers } });
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
  const { promptTokens, completionTokens, totalTokens, cachedTokens = 0, reasoningTokens = 0 } = usage;
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: totalTokens,
  };
}

/** Streamed text: pieces that were sent cannot be taken back. When the model is asked again, what repeats the sent text is not sent again. */
export class SentText {
  readonly #isStreamed: boolean;
  #sent = '';
  #text = '';

  /** `isStreamed`: whether pieces are sent, not the text once it is whole. */
  constructor(isStreamed: boolean) {
    this.#isStreamed = isStreamed;
  }

  /** The text as it stands. */
  get text(): string {
    return this.#text;
  }

  get isUnsent(): boolean {
    return this.#sent === '';
  }

  /** What of a piece is to be sent; `undefined` where the text differs from what was sent. */
  add(piece: string): string | undefined {
    this.#text += piece;
    if (!this.#isStreamed) return piece;
    if (this.#sent.startsWith(this.#text)) return '';
    if (!this.#text.startsWith(this.#sent)) return undefined;
    const rest = this.#text.slice(this.#sent.length);
    this.#sent = this.#text;
    return rest;
  }

  /** What follows is the text from its beginning. */
  restart(): void {
    this.#text = '';
  }

  /** Whether all that was sent stands. */
  get stands(): boolean {
    return !this.#isStreamed || this.#sent === this.#text;
  }
}

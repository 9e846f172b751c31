import { AgentLoopError, type AgentLoopErrorOptions, type ErrorCode } from '../../core/contracts/index.ts';
import { codeOfStatus, isTransient, retryableCodes } from '../http-status.ts';
import { isJsonObject } from './json-object.ts';
import { type ModelServer, nameOfServer } from './model-server.ts';

const cures: Partial<Record<ErrorCode, string>> = {
  PROVIDER_AUTH: 'set apiKey to a key that it accepts for this model',
  PROVIDER_NOT_FOUND: 'check baseUrl, which usually ends in /v1, and model',
  PROVIDER_BAD_REQUEST: "check the request against the model's limits and what it supports",
  PROVIDER_RATE_LIMIT: 'try again later, or call it less often',
  PROVIDER_SERVER: 'try again later, or use another model',
  PROVIDER_TIMEOUT: 'try again later, or use another model',
};

export function wireError(
  server: ModelServer,
  code: ErrorCode,
  what: string,
  options?: AgentLoopErrorOptions,
): AgentLoopError {
  return new AgentLoopError(code, `${nameOfServer(server)} ${what}.`, {
    retryable: retryableCodes.has(code),
    ...options,
  });
}

/** What came is not this wire, or not whole. */
export function protocolError(server: ModelServer, what: string): AgentLoopError {
  return wireError(
    server,
    'PROVIDER_PROTOCOL',
    `${what}: ${server.cures.PROVIDER_PROTOCOL ?? 'check that baseUrl leads to an OpenAI-compatible API, usually ending in /v1'}`,
  );
}

export interface HttpFailure {
  readonly status: number;
  readonly headers: Headers;
  /** The whole body. */
  readonly text: string;
  /** Milliseconds since 1970, to read a `Retry-After` that is a date. */
  readonly now: number;
}

/** An answer whose HTTP status is not one of success. */
export function httpError(server: ModelServer, { status, headers, text, now }: HttpFailure): AgentLoopError {
  const location = headers.get('location');
  if (status < 400) {
    const where = location === null ? '' : ` to ${server.quote(location)}`;
    return wireError(server, 'PROVIDER_PROTOCOL', `redirects${where}: set baseUrl to where it really is`, { status });
  }
  const body = parsed(text) ?? text;
  const code = isUnknownKey(body) ? 'PROVIDER_AUTH' : codeOfStatus(status);
  const retryAfterMs = retryAfter(headers, now);
  return wireError(server, code, sentence(server, code, `answered HTTP ${status}`, messageIn(body)), {
    status,
    retryable: isTransient(code, status) && !isQuota(body),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

/** An error object inside an answer that began well. */
export function vendorError(server: ModelServer, error: unknown): AgentLoopError {
  const status = statusIn(error);
  const code = status === undefined ? codeOfWords(error) : codeOfStatus(status);
  return wireError(server, code, sentence(server, code, 'broke off with an error', messageIn(error)), {
    ...(status === undefined ? {} : { status }),
    retryable: retryableCodes.has(code) && !isQuota(error),
  });
}

function sentence(server: ModelServer, code: ErrorCode, what: string, said: string): string {
  const cure = server.cures[code] ?? cures[code];
  return `${what}${said === '' ? '' : ` ${server.quote(said)}`}${cure === undefined ? '' : `: ${cure}`}`;
}

/** LiteLLM and others put the status of the upstream vendor into `code`, as a number or its digits. */
function statusIn(error: unknown): number | undefined {
  if (!isJsonObject(error)) return undefined;
  const status = [error['code'], error['status'], error['status_code']].map(Number).find((n) => n >= 400 && n < 600);
  return Number.isInteger(status) ? status : undefined;
}

const wordsOfCodes: readonly (readonly [RegExp, ErrorCode])[] = [
  [/rate.?limit|quota|too.?many/i, 'PROVIDER_RATE_LIMIT'],
  [/authenti|permission|api.?key|billing/i, 'PROVIDER_AUTH'],
  [/not.?found/i, 'PROVIDER_NOT_FOUND'],
  [/invalid|bad.?request|context.?length|content.?policy/i, 'PROVIDER_BAD_REQUEST'],
  [/time.?out/i, 'PROVIDER_TIMEOUT'],
];

/** By `type` and `code`. What says neither is a failure behind the server, which may pass. */
function codeOfWords(error: unknown): ErrorCode {
  if (!isJsonObject(error)) return 'PROVIDER_SERVER';
  const words = `${error['type']} ${error['code']}`;
  return wordsOfCodes.find(([pattern]) => pattern.test(words))?.[1] ?? 'PROVIDER_SERVER';
}

/** A used-up quota does not come back by waiting. */
function isQuota(body: unknown): boolean {
  if (!isJsonObject(body)) return false;
  return body['code'] === 'insufficient_quota' || body['type'] === 'insufficient_quota' || isQuota(body['error']);
}

/** LiteLLM without a database answers 400 to every key but its own. */
function isUnknownKey(body: unknown): boolean {
  return isJsonObject(body) && isJsonObject(body['error']) && body['error']['type'] === 'no_db_connection';
}

/** The message in any of the spellings of an error's body: an OpenAI error, FastAPI's `detail`, plain text, a page of HTML. */
function messageIn(body: unknown): string {
  if (typeof body === 'string') return body.trimStart().startsWith('<') ? textOfPage(body) : body;
  if (Array.isArray(body)) return messageIn(body[0]);
  if (!isJsonObject(body)) return '';
  const said = body['error'] ?? body['message'] ?? body['detail'] ?? body['msg'];
  return said === undefined ? JSON.stringify(body) : messageIn(said);
}

/** Of the beginning of a page: what looks for the end of a tag takes the square of the time that it takes to read the page. */
function textOfPage(page: string): string {
  const html = page.slice(0, 4_096);
  const title = /<title[^>]*>([^<]*)</i.exec(html)?.[1]?.trim();
  return title === undefined || title === '' ? html.replace(/<[^>]*>/g, ' ') : title;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * RFC 9110, section 10.2.3: seconds or a date. `retry-after-ms` is what Azure and OpenAI send beside it; LiteLLM passes the
 * vendor's header on under another name. A date begins with its day and is of Greenwich:
 * `Date.parse` alone takes `-1` and `5, 5` for days of 2001, and the old form without a zone for local time.
 */
function retryAfter(headers: Headers, now: number): number | undefined {
  const ms = headers.get('retry-after-ms');
  if (ms !== null && /^\d+(\.\d+)?$/.test(ms)) return Math.ceil(Number(ms));
  const value = headers.get('retry-after') ?? headers.get('llm_provider-retry-after');
  if (value === null) return undefined;
  if (/^\d+(\.\d+)?$/.test(value)) return Math.ceil(Number(value) * 1_000);
  const date = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(value)
    ? Date.parse(`${value.replace(/ GMT$/, '')} GMT`)
    : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

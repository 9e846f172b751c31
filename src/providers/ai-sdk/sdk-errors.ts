import { AgentLoopError } from '../../core/contracts/index.ts';
import { tooLargeIn } from '../../core/model-call/index.ts';
import { isJsonObject, type JsonObject } from '../openai-wire/json-object.ts';
import type { Cures, ModelServer } from '../openai-wire/model-server.ts';
import { networkError } from '../openai-wire/network-error.ts';
import { httpError, protocolError, vendorError, wireError } from '../openai-wire/wire-errors.ts';
import { cutOff } from './sdk-finish-reason.ts';

/** What to do about failures of a model of the AI SDK, where it is not what one does with a server of the OpenAI wire. */
export const sdkCures: Cures = {
  PROVIDER_NOT_FOUND: "check the model's name and the base address of its provider",
  PROVIDER_PROTOCOL: "check that the base address of its provider leads to the vendor's API",
};

/** What came is not what this kind of model sends. */
export function sdkProtocolError(server: ModelServer, what: string): AgentLoopError {
  return protocolError(server, what);
}

/**
 * What a model of the AI SDK threw, or put into its stream as an error, as a coded error. Errors of the AI SDK are known by their name, so
 * that copies of its packages do not matter. None of them is kept as the cause: they hold the whole request.
 */
export function sdkError(server: ModelServer, thrown: unknown, now: number): AgentLoopError {
  if (AgentLoopError.isInstance(thrown)) return thrown;
  const tooLarge = tooLargeIn(thrown);
  if (tooLarge) return tooLarge;
  if (!isJsonObject(thrown)) return networkError(server, thrown);
  const said = typeof thrown['message'] === 'string' ? thrown['message'] : '';
  switch (thrown['name']) {
    case 'AI_APICallError':
      return apiCallError(server, thrown, now);
    case 'AI_LoadAPIKeyError':
      return new AgentLoopError('PROVIDER_AUTH', `Model ${server.model} has no API key: ${server.redact(said)}`);
    case 'AI_UnsupportedFunctionalityError':
      return badRequest(server, `cannot be given this by the AI SDK, ${server.quote(said)}`);
    case 'AI_InvalidPromptError':
    case 'AI_InvalidArgumentError':
      return badRequest(server, `was asked for something that the AI SDK does not take, ${server.quote(said)}`);
    case 'AI_InvalidResponseDataError':
      if (thrown['data'] === undefined) return cutOff(server);
      return sdkProtocolError(server, `sent what cannot be read, ${server.quote(said)}`);
    case 'AI_JSONParseError':
    case 'AI_TypeValidationError':
    case 'AI_EmptyResponseBodyError':
    case 'AI_NoContentGeneratedError':
      return sdkProtocolError(server, `sent what cannot be read, ${server.quote(firstLine(said))}`);
    default:
      return isVendorWords(thrown) ? vendorError(server, thrown) : networkError(server, thrown);
  }
}

function badRequest(server: ModelServer, what: string): AgentLoopError {
  return wireError(server, 'PROVIDER_BAD_REQUEST', `${what}: change the messages or the options of the call`);
}

/** An answer that was not good, one that could not be read, or a connection that failed. */
function apiCallError(server: ModelServer, error: JsonObject, now: number): AgentLoopError {
  const status = error['statusCode'];
  const text = typeof error['responseBody'] === 'string' ? error['responseBody'] : '';
  const inStream = parsed(text);
  // Anthropic's package gives a status of its own to an error in a stream that began with 200.
  if (isVendorWords(inStream)) return vendorError(server, inStream);
  if (isJsonObject(inStream) && String(inStream['name']).startsWith('AI_')) {
    const said = typeof error['message'] === 'string' ? error['message'] : '';
    return sdkProtocolError(server, `sent what cannot be read, ${server.quote(firstLine(said))}`);
  }
  if (typeof status === 'number' && (status < 200 || status > 299)) {
    const failure = httpError(server, { status, headers: headersOf(error['responseHeaders']), text, now });
    return failure.retryAfterMs === undefined ? withDelay(failure, retryDelay(inStream)) : failure;
  }
  if (isCoded(error['cause'])) return networkError(server, error);
  if (status === undefined) return networkError(server, error);
  const quoted = text === '' ? '' : `, ${server.quote(text)}`;
  return sdkProtocolError(server, `sent what cannot be read${quoted}`);
}

/** An error as Anthropic and OpenAI put it into a stream: not an `Error`, and not wrapped. */
function isVendorWords(value: unknown): boolean {
  if (!isJsonObject(value) || value instanceof Error || typeof value['message'] !== 'string') return false;
  return value['name'] === undefined && value['stack'] === undefined;
}

/** Whether an error in the chain of causes is one of Node's, which have a code. */
function isCoded(thrown: unknown): boolean {
  let error = thrown;
  for (let depth = 0; depth < 8 && isJsonObject(error); depth++) {
    if (typeof error['code'] === 'string') return true;
    error = error['cause'];
  }
  return false;
}

function headersOf(value: unknown): Headers {
  const headers = new Headers();
  if (!isJsonObject(value)) return headers;
  for (const [name, text] of Object.entries(value)) if (typeof text === 'string') headers.set(name, text);
  return headers;
}

/** Google says when to come back in the body: `{ error: { details: [{ '@type': …RetryInfo, retryDelay: '34s' }] } }`. */
function retryDelay(body: unknown): number | undefined {
  const error = isJsonObject(body) ? body['error'] : undefined;
  const details = isJsonObject(error) ? error['details'] : undefined;
  if (!Array.isArray(details)) return undefined;
  const delay = details.map((detail) => (isJsonObject(detail) ? detail['retryDelay'] : undefined)).find(isSeconds);
  return delay === undefined ? undefined : Math.ceil(Number.parseFloat(delay) * 1_000);
}

function isSeconds(value: unknown): value is string {
  return typeof value === 'string' && /^\d+(\.\d+)?s$/.test(value);
}

function withDelay(error: AgentLoopError, retryAfterMs: number | undefined): AgentLoopError {
  if (retryAfterMs === undefined) return error;
  const { code, message, retryable, status } = error;
  return new AgentLoopError(code, message, { retryable, retryAfterMs, ...(status === undefined ? {} : { status }) });
}

/** Validation errors of the AI SDK contain the whole request. */
function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

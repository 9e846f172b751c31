import { AgentLoopError, type FinishReason } from '../../core/contracts/index.ts';
import { tooLargeIn } from '../../core/model-call/index.ts';
import { finishReasonOf, isFailure } from '../openai-wire/chat-answer.ts';
import {
  type Cures,
  httpError,
  isJsonObject,
  type JsonObject,
  jsonIn,
  type ModelServer,
  networkError,
  protocolError,
  vendorError,
  wireError,
} from '../openai-wire/wire-errors.ts';
import type { SdkFinishReason } from './sdk-model.ts';

/** What to do about failures of a model of the AI SDK, where it is not what one does with a server of the OpenAI wire. */
export const sdkCures: Cures = {
  PROVIDER_NOT_FOUND: "check the model's name and the base address of its provider",
  PROVIDER_PROTOCOL: "check that the base address of its provider leads to the vendor's API",
};

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
      return protocolError(server, `sent what cannot be read, ${server.quote(said)}`);
    case 'AI_JSONParseError':
    case 'AI_TypeValidationError':
    case 'AI_EmptyResponseBodyError':
    case 'AI_NoContentGeneratedError':
      return protocolError(server, `sent what cannot be read, ${server.quote(firstLine(said))}`);
    default:
      if (!isVendorWords(thrown)) return networkError(server, thrown);
      // Packages of AI SDK 7 put the vendor's own error into `data`.
      return withDelay(vendorError(server, thrown), retryDelay({ error: thrown['data'] }));
  }
}

function badRequest(server: ModelServer, what: string): AgentLoopError {
  return wireError(server, 'PROVIDER_BAD_REQUEST', `${what}: change the messages or the options of the call`);
}

/** An answer that was not good, one that could not be read, or a connection that failed. */
function apiCallError(server: ModelServer, error: JsonObject, now: number): AgentLoopError {
  const status = error['statusCode'];
  const text = typeof error['responseBody'] === 'string' ? error['responseBody'] : '';
  const inStream = jsonIn(text);
  // Anthropic's package gives a status of its own to an error in a stream that began with 200.
  if (isVendorWords(inStream)) return vendorError(server, inStream);
  if (isJsonObject(inStream) && String(inStream['name']).startsWith('AI_')) {
    const said = typeof error['message'] === 'string' ? error['message'] : '';
    return protocolError(server, `sent what cannot be read, ${server.quote(firstLine(said))}`);
  }
  if (typeof status === 'number' && (status < 200 || status > 299)) {
    const failure = httpError(server, { status, headers: headersOf(error['responseHeaders']), text, now });
    return failure.retryAfterMs === undefined ? withDelay(failure, retryDelay(inStream)) : failure;
  }
  if (isCoded(error['cause'])) return networkError(server, error);
  if (status === undefined) return networkError(server, error);
  const quoted = text === '' ? '' : `, ${server.quote(text)}`;
  return protocolError(server, `sent what cannot be read${quoted}`);
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

/** The vendor's word for an answer that it interrupted for tools of its own. */
export const pause = 'pause_turn';

interface AnswerEnd {
  readonly reason: SdkFinishReason | undefined;
  readonly hasCalls: boolean;
  /** Whether a whole answer came at once that has something in it: then no reason is needed. */
  readonly isWhole: boolean;
}

/**
 * Why the model stopped. Throws a coded error where it did not: no reason at all is an answer that was cut off, `error` one that failed,
 * and a pause an answer that was not continued.
 */
export function sdkFinishReason(server: ModelServer, { reason, hasCalls, isWhole }: AnswerEnd): FinishReason {
  const raw = reason?.raw;
  if (raw === pause) {
    const what = 'pauses for tools of its own again and again, or beside a call of yours: ask for less';
    throw wireError(server, 'PROVIDER_FAILED', what);
  }
  switch (reason?.unified) {
    case 'stop':
      return 'stop';
    case 'length':
      return 'length';
    case 'tool-calls':
      return 'tool_calls';
    case 'content-filter':
      return 'content_filter';
    case 'error':
      throw failedAnswer(server, raw);
    case 'interrupted':
      throw cutOff(server);
    default:
      if (raw === undefined && !isWhole) throw cutOff(server);
      if (raw !== undefined && isFailure(raw)) throw failedAnswer(server, raw);
      return finishReasonOf(raw, hasCalls);
  }
}

/** A stream that ended before the model did. */
function cutOff(server: ModelServer): AgentLoopError {
  return wireError(server, 'PROVIDER_STREAM_CLOSED', 'ended its stream without a finish reason: try again');
}

function failedAnswer(server: ModelServer, raw: string | undefined): AgentLoopError {
  const why = raw === undefined ? '' : ` (${server.quote(raw)})`;
  return wireError(server, 'PROVIDER_SERVER', `says that its answer failed${why}: try again, or use another model`);
}

import { AgentLoopError, type FinishReason } from '../../core/contracts/index.ts';
import { soundsFailed } from '../failure-words.ts';
import { type AnswerContent, finishMeaning } from '../finish-words.ts';
import { failedFinish, finishReasonOf } from '../openai-wire/answer-end.ts';
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
import { failureIn, headersOf } from '../read-failure.ts';
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
  const coded = codedIn(thrown);
  if (coded) return coded;
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
      return unreadable(server, thrown, now);
    default:
      return isVendorWords(thrown) ? vendorError(server, thrown, { now }) : networkError(server, thrown);
  }
}

/** What `fetch` threw, however a package wrapped it. */
function codedIn(thrown: unknown): AgentLoopError | undefined {
  let error = thrown;
  for (let depth = 0; depth < 8 && isJsonObject(error); depth++) {
    if (AgentLoopError.isInstance(error)) return error;
    error = error['cause'];
  }
  return undefined;
}

function badRequest(server: ModelServer, what: string): AgentLoopError {
  return wireError(server, 'PROVIDER_BAD_REQUEST', `${what}: change the messages or the options of the call`);
}

/** An answer that was not good, one that could not be read, or a connection that failed. */
function apiCallError(server: ModelServer, error: JsonObject, now: number): AgentLoopError {
  const status = error['statusCode'];
  const text = typeof error['responseBody'] === 'string' ? error['responseBody'] : '';
  const body = jsonIn(text);
  const headers = headersOf(error['responseHeaders']);
  // Anthropic's package gives a status of its own to an error in a stream that began with 200.
  const isStream = headers.get('content-type')?.startsWith('text/event-stream') === true;
  if (isStream && isVendorWords(body)) return vendorError(server, body, { headers, now });
  if (isJsonObject(body) && String(body['name']).startsWith('AI_')) return unreadable(server, body, now);
  if (typeof status === 'number' && (status < 200 || status > 299)) {
    return httpError(server, { status, headers, text, now });
  }
  const failure = failureIn(body);
  if (failure) return vendorError(server, failure, { headers, now });
  if (isCoded(error['cause'])) return networkError(server, error);
  if (status === undefined) return networkError(server, error);
  if (soundsFailed(text)) return vendorError(server, text, { headers, now });
  const quoted = text === '' ? '' : `, ${server.quote(text)}`;
  return protocolError(server, `sent what cannot be read${quoted}`);
}

/** What a package refuses to read may still be the words of a failure: its error has them as `value`, or as `text`. */
function unreadable(server: ModelServer, error: JsonObject, now: number): AgentLoopError {
  const { value, text, message } = error;
  const failure = failureIn(value) ?? (typeof text === 'string' && soundsFailed(text) ? text : undefined);
  if (failure !== undefined) return vendorError(server, failure, { now });
  const said = typeof message === 'string' ? firstLine(message) : '';
  return protocolError(server, `sent what cannot be read, ${server.quote(said)}`);
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

/** Validation errors of the AI SDK contain the whole request. */
function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}

/** The vendor's word for an answer that it interrupted for tools of its own. */
export const pause = 'pause_turn';

interface SdkAnswerEnd extends AnswerContent {
  readonly reason: SdkFinishReason | undefined;
  /** Whether a whole answer came at once that has something in it: then no reason is needed. */
  readonly isWhole: boolean;
}

/**
 * Why the model stopped. Throws a coded error where it did not: no reason at all is an answer that was cut off, `error` one that failed,
 * and a pause an answer that was not continued.
 */
export function sdkFinishReason(server: ModelServer, { reason, isWhole, ...content }: SdkAnswerEnd): FinishReason {
  const { raw, unified } = reason ?? {};
  if (raw === pause) {
    const what = 'pauses for tools of its own again and again, or beside a call of yours: ask for less';
    throw wireError(server, 'PROVIDER_FAILED', what);
  }
  const hasWord = unified !== undefined && unified !== 'other';
  if (unified === 'interrupted' || (!hasWord && raw === undefined && !isWhole)) throw cutOff(server);
  // Packages map many words to one: the vendor's own counts where it tells of a failure, or where the AI SDK has no word for it.
  const failure = raw === undefined ? undefined : failedFinish(server, raw);
  if (failure) throw failure;
  const isFull = raw !== undefined && finishMeaning(raw) === 'overflow';
  return finishReasonOf(server, hasWord && !isFull ? unified : raw, content);
}

/** A stream that ended before the model did. */
function cutOff(server: ModelServer): AgentLoopError {
  return wireError(server, 'PROVIDER_STREAM_CLOSED', 'ended its stream without a finish reason: try again');
}

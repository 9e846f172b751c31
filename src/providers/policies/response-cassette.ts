import { readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import {
  catchError,
  concat,
  concatMap,
  defer,
  EMPTY,
  from,
  ignoreElements,
  mergeMap,
  type Observable,
  of,
  tap,
  throwError,
} from 'rxjs';
import {
  AgentLoopError,
  type ErrorCode,
  errorCodes,
  isObject,
  type LLMCallParams,
  type LLMChunk,
  type LLMResponse,
  maxMessageDepth,
  messageOf,
  parsedJson,
} from '../../core/contracts/index.ts';
import { aFunction, aName, assertGiven, assertOptions } from '../../options/option-rules.ts';
import { appendPrivate, makeFolder, writePrivate } from '../../private-files.ts';
import { redactMembers, withoutSecrets } from '../../redaction.ts';
import { difference, shown } from '../../replay/recording.ts';
import type { StreamCall } from './attempt-stream.ts';
import { definePolicy, type ProviderPolicy } from './provider-policy.ts';
import { isResponse, keyOf, requestOf } from './request-key.ts';

/** Options of `recordResponses`. */
export interface RecordResponsesOptions {
  /** The file that is written, anew by each run. */
  readonly path: string;
  /**
   * Given every text of requests and answers, secrets taken out; what it gives is written. It has to give equal texts for equal texts,
   * and what it gave once as it is. `replayResponses` needs the same. Default: the text as it is.
   */
  readonly redact?: ((text: string) => string) | undefined;
}

/**
 * Writes the requests of the model and its answers, chunk by chunk, into a cassette for `replayResponses`: a file of JSON lines. Failures
 * are recorded too, requests that were left are not. Secrets are taken out: texts under names such as `apiKey` and `token`, and what
 * looks like a key anywhere, also where it came in pieces. The caller gets all as it came, the last chunk or the failure once it is
 * written. The first request begins the file anew; folders are made. Errors: `INVALID_CONFIG`, naming the option; a call errors with
 * `INVALID_INPUT` where the file cannot be written. Memory: the chunks of the answers under way.
 */
export function recordResponses(options: RecordResponsesOptions): ProviderPolicy {
  assertOptions('recordResponses', options, { path: aName, redact: aFunction });
  assertGiven('recordResponses', 'path', options.path, 'give the file to write');
  const { path, redact = (text) => text } = options;
  const file = new CassetteFile(path);
  return definePolicy('recordResponses', (stream) => (params) => recorded(stream, params, { file, redact }));
}

interface Recorder {
  readonly file: CassetteFile;
  readonly redact: (text: string) => string;
}

function recorded(stream: StreamCall, params: LLMCallParams, { file, redact }: Recorder): Observable<LLMChunk> {
  return defer(() => {
    const chunks: LLMChunk[] = [];
    const written = (error?: RecordedError): Observable<never> =>
      defer(() => {
        const request = redactMembers(requestOf(params), redact);
        return file.append({ request, chunks: redactChunks(chunks, redact), ...(error && { error }) });
      }).pipe(ignoreElements());
    return stream(params).pipe(
      tap((chunk) => chunks.push(chunk)),
      catchError((error: AgentLoopError) =>
        concat(
          written(recordedError(error, redact)),
          throwError(() => error),
        ),
      ),
      concatMap((chunk) => (chunk.type === 'done' ? concat(written(), of(chunk)) : of(chunk))),
    );
  });
}

function recordedError(error: AgentLoopError, redact: (text: string) => string): RecordedError {
  const { code, message, retryable, status, retryAfterMs } = error;
  return {
    code,
    message: String(withoutSecrets(message, redact)),
    retryable,
    ...(status === undefined ? {} : { status }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
}

/** Lines go into the file one after the other, in the order of `append`; one that cannot be written ends all that follow. */
class CassetteFile {
  readonly #path: string;
  #written: Promise<void> | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  /** Resolves once the line is in the file. */
  append(line: object): Promise<void> {
    const before = this.#written ?? this.#begin();
    this.#written = before.then(() => appendPrivate(this.#path, writtenLine(line)));
    return this.#written.catch((cause: unknown) => {
      const message = `The cassette "${this.#path}" cannot be written: ${messageOf(cause)}; give another path.`;
      throw new AgentLoopError('INVALID_INPUT', message, { cause });
    });
  }

  async #begin(): Promise<void> {
    await makeFolder(dirname(this.#path));
    await writePrivate(this.#path, writtenLine(cassetteHeader));
  }
}

function writtenLine(value: object): string {
  return `${JSON.stringify(value)}\n`;
}

/** Options of `replayResponses`. */
export interface ReplayResponsesOptions {
  /** A cassette that `recordResponses` wrote. Read at the first request. */
  readonly path: string;
  /** The one that it was recorded with. Default: the text as it is. */
  readonly redact?: ((text: string) => string) | undefined;
}

/**
 * Answers from a cassette, chunk by chunk and failure by failure, and never asks the provider. Which model is asked does not matter, nor
 * do ids and times; requests are found by what they ask. Equal requests are answered in the order of their recording. A request that was
 * not recorded, or not so often, is `DEVIATION`, naming the first difference; a cassette that cannot be read `NOT_FOUND` or
 * `INVALID_INPUT`. What was played belongs to what this gives. Memory: the cassette. Errors: `INVALID_CONFIG`, naming the option.
 */
export function replayResponses(options: ReplayResponsesOptions): ProviderPolicy {
  assertOptions('replayResponses', options, { path: aName, redact: aFunction });
  assertGiven('replayResponses', 'path', options.path, 'give the file that recordResponses wrote');
  const { path, redact = (text) => text } = options;
  let player: Promise<Player> | undefined;
  const load = (): Promise<Player> => {
    player ??= readResponses(path).then((exchanges) => new Player(path, exchanges));
    return player;
  };
  return definePolicy(
    'replayResponses',
    () => (params) => defer(() => from(load()).pipe(mergeMap((loaded) => loaded.play(askedOf(params, redact))))),
  );
}

/** As it was recorded: without secrets, and as JSON. */
function askedOf(params: LLMCallParams, redact: (text: string) => string): unknown {
  return JSON.parse(JSON.stringify(redactMembers(requestOf(params), redact)));
}

/** The exchanges of a cassette that are still to come. */
class Player {
  readonly #path: string;
  readonly #left: { readonly key: string; readonly exchange: RecordedExchange; readonly line: number }[];

  constructor(path: string, exchanges: readonly RecordedExchange[]) {
    this.#path = path;
    this.#left = exchanges.map((exchange, index) => ({ key: keyOf(exchange.request), exchange, line: index + 2 }));
  }

  play(asked: unknown): Observable<LLMChunk> {
    const key = keyOf(asked);
    const place = this.#left.findIndex((each) => each.key === key);
    const [found] = place === -1 ? [] : this.#left.splice(place, 1);
    if (found === undefined) return throwError(() => this.#deviation(asked));
    const { chunks, error } = found.exchange;
    return concat(chunks, error ? throwError(() => failureOf(error)) : EMPTY);
  }

  #deviation(asked: unknown): AgentLoopError {
    const [next] = this.#left;
    const found = next && difference(next.exchange.request, asked);
    const how = found
      ? `it differs from the one of line ${next.line} at ${found.path}: expected ${shown(found.expected)}, got ${shown(found.got)}`
      : 'all that was recorded has been played';
    return new AgentLoopError(
      'DEVIATION',
      `The request is not in the cassette "${this.#path}": ${how}; record it again where that is meant.`,
    );
  }
}

function failureOf({ code, message, ...options }: RecordedError): AgentLoopError {
  return new AgentLoopError(code, message, options);
}

/** One request and how it was answered. */
interface RecordedExchange {
  /** As `requestOf` gives it, secrets taken out. */
  readonly request: object;
  readonly chunks: readonly LLMChunk[];
  /** How it failed behind these chunks, where it did. */
  readonly error?: RecordedError;
}

interface RecordedError {
  readonly code: ErrorCode;
  readonly message: string;
  readonly retryable: boolean;
  readonly status?: number;
  readonly retryAfterMs?: number;
}

/** The first line of a cassette of answers; one exchange a line follows. */
const cassetteHeader = { format: 'millrace-responses', version: 1 };

/** The exchanges of a cassette. Errors: `NOT_FOUND` where there is no file, `INVALID_INPUT` for what is no cassette, naming the line. */
async function readResponses(path: string): Promise<readonly RecordedExchange[]> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    const message = `The cassette "${path}" cannot be read: ${messageOf(error)}; record it with recordResponses.`;
    throw new AgentLoopError('NOT_FOUND', message, { cause: error });
  });
  const [header, ...lines] = text
    .trimEnd()
    .split(/\r?\n/)
    .map((line, index) => lineOf(line, `Line ${index + 1} of "${path}"`));
  if (header?.value['format'] !== cassetteHeader.format || header.value['version'] !== cassetteHeader.version) {
    throw invalid(
      `Line 1 of "${path}" is no header of recorded answers; it has to be ${JSON.stringify(cassetteHeader)}`,
    );
  }
  return lines.map(exchangeOf);
}

interface Line {
  readonly place: string;
  readonly value: Readonly<Record<string, unknown>>;
}

function lineOf(text: string, place: string): Line {
  let value: unknown;
  try {
    value = parsedJson(text, maxMessageDepth);
  } catch (error) {
    throw invalid(`${place} is not JSON: ${messageOf(error)}`);
  }
  if (isObject(value)) return { place, value };
  throw invalid(`${place} must be an object`);
}

function exchangeOf({ place, value }: Line): RecordedExchange {
  const { request, chunks, error } = value;
  if (!isObject(request)) throw invalid(`${place} has no request`);
  if (!Array.isArray(chunks) || !chunks.every(isChunk)) throw invalid(`${place} has chunks that are none`);
  if (error === undefined) {
    if (chunks.at(-1)?.type === 'done') return { request, chunks };
    throw invalid(`${place} has neither an answer, a last chunk of type "done", nor an error`);
  }
  if (!isRecordedError(error)) throw invalid(`${place} has an error without a known code, a message and retryable`);
  return { request, chunks, error };
}

function isChunk(value: unknown): value is LLMChunk {
  if (!isObject(value)) return false;
  switch (value['type']) {
    case 'text':
    case 'reasoning':
      return typeof value['text'] === 'string';
    case 'tool-call':
      return Number.isInteger(value['index']);
    case 'attempt':
      return value['state'] === 'begin' || value['state'] === 'void';
    case 'done':
      return isResponse(value['response']);
    default:
      return false;
  }
}

function isRecordedError(value: unknown): value is RecordedError {
  return (
    isObject(value) &&
    errorCodes.some((code) => code === value['code']) &&
    typeof value['message'] === 'string' &&
    typeof value['retryable'] === 'boolean'
  );
}

function invalid(what: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', `${what}; record it again with recordResponses.`);
}

type Redact = (text: string) => string;

/**
 * The chunks of one answer without secrets. A secret in pieces is found too: if the text of an attempt has one, the whole of
 * it stands in its first piece and the others are empty; texts without one keep their pieces.
 */
export function redactChunks(chunks: readonly LLMChunk[], redact: Redact): readonly LLMChunk[] {
  const texts = joinedTexts(chunks);
  const clean = new Map([...texts].map(([channel, text]) => [channel, cleanText(text, redact)]));
  const given = new Set<string>();
  return channelsOf(chunks).map(({ chunk, channel }) => {
    if (chunk.type === 'attempt') return chunk;
    if (chunk.type === 'done') return { type: 'done', response: redactResponse(chunk.response, redact) };
    const whole = clean.get(channel) ?? '';
    if (whole === texts.get(channel)) return chunk;
    const text = given.has(channel) ? '' : whole;
    given.add(channel);
    return chunk.type === 'tool-call' ? { ...chunk, arguments: text } : { ...chunk, text };
  });
}

interface Channeled {
  readonly chunk: LLMChunk;
  /** What texts grow together: of an attempt, its text, its reasoning, the arguments of each of its calls. */
  readonly channel: string;
}

function channelsOf(chunks: readonly LLMChunk[]): readonly Channeled[] {
  let attempt = 0;
  return chunks.map((chunk) => {
    if (chunk.type === 'attempt') attempt += 1;
    const index = chunk.type === 'tool-call' ? chunk.index : 0;
    return { chunk, channel: `${attempt} ${chunk.type} ${index}` };
  });
}

function joinedTexts(chunks: readonly LLMChunk[]): ReadonlyMap<string, string> {
  const texts = new Map<string, string>();
  for (const { chunk, channel } of channelsOf(chunks)) {
    const piece = chunk.type === 'tool-call' ? chunk.arguments : 'text' in chunk ? chunk.text : undefined;
    if (piece !== undefined) texts.set(channel, (texts.get(channel) ?? '') + piece);
  }
  return texts;
}

function cleanText(text: string, redact: Redact): string {
  return String(withoutSecrets(text, redact));
}

function redactResponse(response: LLMResponse, redact: Redact): LLMResponse {
  const clean = redactMembers(response, redact);
  if (isResponse(clean)) return clean;
  throw new AgentLoopError('INVALID_INPUT', 'redact must return a string for each string.');
}

import { readFile } from 'node:fs/promises';
import { AgentLoopError, type ErrorCode, errorCodes, type LLMChunk, messageOf } from '../../core/contracts/index.ts';
import { isResponse } from './is-response.ts';

/** One request and how it was answered. */
export interface RecordedExchange {
  /** As `requestOf` gives it, secrets taken out. */
  readonly request: object;
  readonly chunks: readonly LLMChunk[];
  /** How it failed behind these chunks, where it did. */
  readonly error?: RecordedError;
}

export interface RecordedError {
  readonly code: ErrorCode;
  readonly message: string;
  readonly retryable: boolean;
  readonly status?: number;
  readonly retryAfterMs?: number;
}

/** The first line of a cassette of answers; one exchange a line follows. */
export const cassetteHeader = { format: 'millrace-responses', version: 1 };

/** The exchanges of a cassette. Errors: `NOT_FOUND` where there is no file, `INVALID_INPUT` for what is no cassette, naming the line. */
export async function readResponses(path: string): Promise<readonly RecordedExchange[]> {
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
    value = JSON.parse(text);
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

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function invalid(what: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', `${what}; record it again with recordResponses.`);
}

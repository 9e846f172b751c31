import { dirname } from 'node:path';
import { catchError, concat, concatMap, defer, ignoreElements, type Observable, of, tap, throwError } from 'rxjs';
import { AgentLoopError, type LLMCallParams, type LLMChunk, messageOf } from '../../core/contracts/index.ts';
import { appendPrivate, makeFolder, writePrivate } from '../../files/private-files.ts';
import { redactMembers } from '../../redaction/redact-members.ts';
import { withoutSecrets } from '../../redaction/redact-secrets.ts';
import type { StreamCall } from './attempt-stream.ts';
import { aFunction, assertGiven, assertOptions, aText } from './policy-options.ts';
import { definePolicy, type ProviderPolicy } from './provider-policy.ts';
import { redactChunks } from './redact-chunks.ts';
import { requestOf } from './request-key.ts';
import { cassetteHeader, type RecordedError } from './response-cassette.ts';

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
  assertOptions('recordResponses', options, { path: aText, redact: aFunction });
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
    this.#written = before.then(() => appendPrivate(this.#path, lineOf(line)));
    return this.#written.catch((cause: unknown) => {
      const message = `The cassette "${this.#path}" cannot be written: ${messageOf(cause)}; give another path.`;
      throw new AgentLoopError('INVALID_INPUT', message, { cause });
    });
  }

  async #begin(): Promise<void> {
    await makeFolder(dirname(this.#path));
    await writePrivate(this.#path, lineOf(cassetteHeader));
  }
}

function lineOf(value: object): string {
  return `${JSON.stringify(value)}\n`;
}

import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { S3Client, S3ClientConfig } from '@aws-sdk/client-s3';
import { AgentLoopError, messageOf, missingPackage, nameOf } from '../../core/contracts/index.ts';
import { type ArtifactDraft, PartBuffer, type WrittenContent } from '../artifacts/versioned-artifact-store.ts';

/** Options of the SDK's client, such as region and endpoint, or a client. */
export type S3Target = S3ClientConfig | S3Client;

interface S3Part {
  readonly PartNumber: number;
  readonly ETag: string | undefined;
}

interface S3Upload {
  readonly key: string;
  readonly uploadId: string;
  /** Milliseconds since 1970, by the clock of the server. */
  readonly startedAt: number;
}

interface Connection {
  readonly sdk: S3Package;
  readonly client: S3Client;
}

/** How many attempts of a read may break in a row without receiving a byte. */
const readAttempts = 3;

/** The requests that the artifact store makes to one bucket. Throws what the SDK throws. */
export class S3Bucket {
  readonly name: string;
  readonly #target: S3Target;
  #opened: Promise<Connection> | undefined;

  constructor(name: string, target: S3Target) {
    this.name = name;
    this.#target = target;
  }

  async put(key: string, body: Uint8Array | string): Promise<void> {
    const { sdk, client } = await this.#connection();
    // Without a length the SDK logs a warning for an empty body.
    const ContentLength = Buffer.byteLength(body);
    await client.send(new sdk.PutObjectCommand({ Bucket: this.name, Key: key, Body: body, ContentLength }));
  }

  /** Creates a key atomically. Returns false if it exists. */
  async putNew(key: string, body: string): Promise<boolean> {
    const { sdk, client } = await this.#connection();
    try {
      await client.send(new sdk.PutObjectCommand({ Bucket: this.name, Key: key, Body: body, IfNoneMatch: '*' }));
      return true;
    } catch (error) {
      if (isTaken(error)) return false;
      throw error;
    }
  }

  /** The object as a string; undefined if the key does not exist. */
  async get(key: string): Promise<string | undefined> {
    const { sdk, client } = await this.#connection();
    try {
      const { Body } = await client.send(new sdk.GetObjectCommand({ Bucket: this.name, Key: key }));
      return (await Body?.transformToString('utf8')) ?? '';
    } catch (error) {
      if (isMissingKey(error)) return undefined;
      throw error;
    }
  }

  /** The size in bytes; undefined if the key does not exist. */
  async sizeOf(key: string): Promise<number | undefined> {
    const { sdk, client } = await this.#connection();
    try {
      return (await client.send(new sdk.HeadObjectCommand({ Bucket: this.name, Key: key }))).ContentLength;
    } catch (error) {
      if (isMissingKey(error)) return undefined;
      throw error;
    }
  }

  /** Reads an object of `size` bytes in chunks; continues after a broken connection. `return()` closes the connection. */
  async *read(key: string, size: number): AsyncGenerator<Uint8Array> {
    let offset = 0;
    for (let attempt = 1; ; attempt++) {
      const begun = offset;
      try {
        for await (const chunk of this.#readFrom(key, offset)) {
          offset += chunk.length;
          yield chunk;
        }
        if (offset >= size) return;
      } catch (error) {
        if (offset >= size) return;
        if (isMissingKey(error) || (offset === begun && attempt >= readAttempts)) throw error;
      }
      if (offset > begun) attempt = 0;
      else if (attempt >= readAttempts) return;
    }
  }

  /** All keys with the prefix that sort after `after`, in order. */
  async *keys(prefix: string, after?: string): AsyncGenerator<string> {
    for await (const { Contents = [] } of this.#list({ prefix, after })) {
      for (const { Key } of Contents) if (Key !== undefined) yield Key;
    }
  }

  /** The distinct names between the prefix and the next `/`, of keys that sort after `after`, in order. */
  async *folders(prefix: string, after?: string): AsyncGenerator<string> {
    for await (const { CommonPrefixes = [] } of this.#list({ prefix, after, delimiter: '/' })) {
      for (const { Prefix } of CommonPrefixes) if (Prefix !== undefined) yield Prefix.slice(prefix.length, -1);
    }
  }

  /** Does nothing if the key does not exist. */
  async remove(key: string): Promise<void> {
    const { sdk, client } = await this.#connection();
    await client.send(new sdk.DeleteObjectCommand({ Bucket: this.name, Key: key }));
  }

  async startUpload(key: string): Promise<string> {
    const { sdk, client } = await this.#connection();
    const { UploadId } = await client.send(new sdk.CreateMultipartUploadCommand({ Bucket: this.name, Key: key }));
    if (UploadId === undefined) throw new Error('the server returned no UploadId for a multipart upload');
    return UploadId;
  }

  async uploadPart(upload: Pick<S3Upload, 'key' | 'uploadId'>, number: number, body: Uint8Array): Promise<S3Part> {
    const { sdk, client } = await this.#connection();
    const { key: Key, uploadId: UploadId } = upload;
    const part = { Bucket: this.name, Key, UploadId, PartNumber: number, Body: body };
    const { ETag } = await client.send(new sdk.UploadPartCommand(part));
    return { PartNumber: number, ETag };
  }

  async completeUpload(upload: Pick<S3Upload, 'key' | 'uploadId'>, parts: readonly S3Part[]): Promise<void> {
    const { sdk, client } = await this.#connection();
    const Parts = parts.map(({ PartNumber, ETag }) => ({ PartNumber, ...(ETag !== undefined && { ETag }) }));
    const { key: Key, uploadId: UploadId } = upload;
    const whole = { Bucket: this.name, Key, UploadId, MultipartUpload: { Parts } };
    await client.send(new sdk.CompleteMultipartUploadCommand(whole));
  }

  async abortUpload({ key: Key, uploadId: UploadId }: Pick<S3Upload, 'key' | 'uploadId'>): Promise<void> {
    const { sdk, client } = await this.#connection();
    await client.send(new sdk.AbortMultipartUploadCommand({ Bucket: this.name, Key, UploadId }));
  }

  /** The first 1,000 open multipart uploads below a prefix. */
  async uploads(prefix: string): Promise<readonly S3Upload[]> {
    const { sdk, client } = await this.#connection();
    const { Uploads = [] } = await client.send(
      new sdk.ListMultipartUploadsCommand({ Bucket: this.name, Prefix: prefix }),
    );
    return Uploads.map(({ Key: key = '', UploadId: uploadId = '', Initiated }) => ({
      key,
      uploadId,
      startedAt: Initiated?.getTime() ?? Number.POSITIVE_INFINITY,
    }));
  }

  /** Closes the connections, unless the caller passed a client. */
  async close(): Promise<void> {
    const opened = await this.#opened?.catch(() => undefined);
    if (!isClient(this.#target)) opened?.client.destroy();
  }

  async *#readFrom(key: string, offset: number): AsyncGenerator<Uint8Array> {
    const { sdk, client } = await this.#connection();
    const range = offset === 0 ? {} : { Range: `bytes=${offset}-` };
    const { Body } = await client.send(new sdk.GetObjectCommand({ Bucket: this.name, Key: key, ...range }));
    const body = Body instanceof Readable ? Body : Body?.transformToWebStream();
    if (body === undefined) return;
    for await (const chunk of body) if (chunk instanceof Uint8Array) yield chunk;
  }

  async *#list(of: { prefix: string; after: string | undefined; delimiter?: string }) {
    const { sdk, client } = await this.#connection();
    const { prefix: Prefix, after: StartAfter, delimiter: Delimiter } = of;
    let token: string | undefined;
    do {
      const page = await client.send(
        new sdk.ListObjectsV2Command({ Bucket: this.name, Prefix, StartAfter, Delimiter, ContinuationToken: token }),
      );
      yield page;
      token = page.IsTruncated ? page.NextContinuationToken : undefined;
    } while (token !== undefined);
  }

  #connection(): Promise<Connection> {
    this.#opened ??= this.#open();
    return this.#opened;
  }

  /** Errors: `MISSING_PACKAGE`. */
  async #open(): Promise<Connection> {
    const sdk = await loadS3();
    if (isClient(this.#target)) return { sdk, client: this.#target };
    // Some compatible servers refuse the SDK's checksum header, or store the checksum as content.
    const defaults = {
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
    } as const;
    return { sdk, client: new sdk.S3Client({ ...defaults, ...this.#target }) };
  }
}

function isClient(target: S3Target): target is S3Client {
  return 'send' in target && 'middlewareStack' in target;
}

/** The maximum number of parts of an S3 upload. */
const maxParts = 10_000;

/** A content that is written to its own object: in one request, or as a multipart upload if it is larger than a part. */
export class S3Draft implements ArtifactDraft {
  readonly key: string;
  readonly #bucket: S3Bucket;
  readonly #partBytes: number;
  /** Bytes that are not sent yet. */
  readonly #rest: PartBuffer;
  readonly #hash = createHash('sha256');
  readonly #parts: S3Part[] = [];
  #size = 0;
  #uploadId: string | undefined;
  #state: 'open' | 'stored' | 'settled' = 'open';

  constructor(bucket: S3Bucket, key: string, partBytes: number) {
    this.#bucket = bucket;
    this.key = key;
    this.#partBytes = partBytes;
    this.#rest = new PartBuffer(partBytes);
  }

  get size(): number {
    return this.#size;
  }

  async add(bytes: Uint8Array): Promise<void> {
    this.#hash.update(bytes);
    this.#size += bytes.length;
    for (const part of this.#rest.fill(bytes)) await this.#sendPart(part);
  }

  async complete(): Promise<WrittenContent> {
    if (this.#uploadId === undefined) await this.#bucket.put(this.key, this.#rest.take());
    else await this.#completeUpload(this.#uploadId);
    this.#state = 'stored';
    return { size: this.#size, sha256: this.#hash.digest('hex') };
  }

  /** Call it when a version names the content: `discard` then keeps it. */
  published(): void {
    this.#state = 'settled';
  }

  async discard(): Promise<void> {
    const state = this.#state;
    this.#state = 'settled';
    if (state === 'stored') await this.#bucket.remove(this.key);
    if (state === 'open' && this.#uploadId !== undefined) {
      await this.#bucket.abortUpload({ key: this.key, uploadId: this.#uploadId });
    }
  }

  async #completeUpload(uploadId: string): Promise<void> {
    if (this.#rest.bytes > 0) await this.#sendPart(this.#rest.take());
    try {
      await this.#bucket.completeUpload({ key: this.key, uploadId }, this.#parts);
    } catch (error) {
      // The SDK may have repeated a request whose response was lost: the upload is complete then.
      if (!isMissingUpload(error) || (await this.#bucket.sizeOf(this.key)) !== this.#size) throw error;
    }
  }

  async #sendPart(part: Uint8Array): Promise<void> {
    if (this.#parts.length === maxParts) {
      const message = `A content has more than ${maxParts} parts of ${this.#partBytes} bytes; raise partBytes.`;
      throw new AgentLoopError('FULL', message);
    }
    this.#uploadId ??= await this.#bucket.startUpload(this.key);
    const upload = { key: this.key, uploadId: this.#uploadId };
    this.#parts.push(await this.#bucket.uploadPart(upload, this.#parts.length + 1, part));
  }
}

const refusedCredentials: ReadonlySet<string> = new Set([
  'AccessDenied',
  'AccountProblem',
  'CredentialsProviderError',
  'ExpiredToken',
  'InvalidAccessKeyId',
  'InvalidToken',
  'RequestTimeTooSkewed',
  'SignatureDoesNotMatch',
]);

const full: ReadonlySet<string> = new Set([
  'EntityTooLarge',
  'InsufficientStorage',
  'QuotaExceeded',
  'XMinioStorageFull',
]);

/**
 * The error of a failed request: `FULL` if the server has no space, else `UNAVAILABLE`. Contains the message of the server, but not the request,
 * which has a signature.
 */
export function s3Error(thrown: unknown, bucket: string): AgentLoopError {
  if (AgentLoopError.isInstance(thrown)) return thrown;
  const said = saidBy(thrown);
  const name = nameOf(thrown);
  const about = `The bucket "${bucket}"`;
  if (full.has(name) || statusOf(thrown) === 507) {
    const message = `${about} has no room for this: "${said}"; free space, or raise the quota.`;
    return new AgentLoopError('FULL', message, { retryable: true });
  }
  const cure = cureOf(name, statusOf(thrown));
  if (cure !== undefined) {
    return new AgentLoopError('UNAVAILABLE', `${about} cannot be used: "${said}"; ${cure}.`);
  }
  const message = `${about} cannot be reached: "${said}"; check endpoint and network, or try again later.`;
  return new AgentLoopError('UNAVAILABLE', message, { retryable: true });
}

/** Whether a request was refused because its key exists, or is being written. */
function isTaken(thrown: unknown): boolean {
  const status = statusOf(thrown);
  return status === 412 || (status === 409 && nameOf(thrown) === 'ConditionalRequestConflict');
}

export function isMissingKey(thrown: unknown): boolean {
  return ['NoSuchKey', 'NotFound'].includes(nameOf(thrown));
}

function isMissingUpload(thrown: unknown): boolean {
  return nameOf(thrown) === 'NoSuchUpload';
}

/** The cure of a failure that a retry would repeat; undefined for others. */
function cureOf(name: string, status: number | undefined): string | undefined {
  if (refusedCredentials.has(name) || status === 401 || status === 403) {
    return 'check the credentials, and what their policy allows';
  }
  if (name === 'NoSuchBucket') return 'create it, or name another one';
  if (name === 'NotImplemented' || status === 501) {
    return 'if the server does not support If-None-Match, set conditionalWrites to false';
  }
  const isRefusal = status !== undefined && status >= 400 && status < 500 && ![408, 409, 425, 429].includes(status);
  return isRefusal ? 'check bucket, region and endpoint' : undefined;
}

function saidBy(thrown: unknown): string {
  const name = nameOf(thrown);
  const message = messageOf(thrown);
  return name === 'Error' ? message : `${name}: ${message}`;
}

function statusOf(thrown: unknown): number | undefined {
  if (typeof thrown !== 'object' || thrown === null || !('$metadata' in thrown)) return undefined;
  const metadata = thrown.$metadata;
  if (typeof metadata !== 'object' || metadata === null || !('httpStatusCode' in metadata)) return undefined;
  return typeof metadata.httpStatusCode === 'number' ? metadata.httpStatusCode : undefined;
}

/** The package of the S3 client. */
type S3Package = typeof import('@aws-sdk/client-s3');

/** Loads the package. Errors: `MISSING_PACKAGE`. */
async function loadS3(): Promise<S3Package> {
  try {
    return await import('@aws-sdk/client-s3');
  } catch (cause) {
    throw missingPackage('@aws-sdk/client-s3', cause);
  }
}

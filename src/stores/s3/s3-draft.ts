import { createHash } from 'node:crypto';
import { AgentLoopError } from '../../core/contracts/index.ts';
import type { ArtifactDraft, WrittenContent } from '../artifacts/artifact-shelf.ts';
import { PartBuffer } from '../artifacts/part-buffer.ts';
import type { S3Bucket, S3Part } from './s3-bucket.ts';
import { isMissingUpload } from './s3-errors.ts';

/** What S3 takes of one upload. */
const mostParts = 10_000;

/** A content on its way to an object of its own: in one request, or part by part where it is larger than a part. */
export class S3Draft implements ArtifactDraft {
  readonly key: string;
  readonly #bucket: S3Bucket;
  readonly #partBytes: number;
  /** What is not sent yet. */
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

  /** From now on the content belongs to a version. */
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
      // A request whose reply was lost is sent again, and finds the upload done.
      if (!isMissingUpload(error) || (await this.#bucket.sizeOf(this.key)) !== this.#size) throw error;
    }
  }

  async #sendPart(part: Uint8Array): Promise<void> {
    if (this.#parts.length === mostParts) {
      const message = `A content has more than ${mostParts} parts of ${this.#partBytes} bytes; raise partBytes.`;
      throw new AgentLoopError('FULL', message);
    }
    this.#uploadId ??= await this.#bucket.startUpload(this.key);
    const upload = { key: this.key, uploadId: this.#uploadId };
    this.#parts.push(await this.#bucket.uploadPart(upload, this.#parts.length + 1, part));
  }
}

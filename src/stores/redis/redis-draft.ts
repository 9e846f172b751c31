import { createHash, randomUUID } from 'node:crypto';
import { AgentLoopError } from '../../core/contracts/index.ts';
import type { ArtifactDraft, WrittenContent } from '../artifacts/artifact-shelf.ts';
import { PartBuffer } from '../artifacts/part-buffer.ts';
import { runArtifactScript } from './artifact-scripts.ts';
import { command, type RedisClient } from './redis-client.ts';

export const chunkBytes = 256 * 1024;
/** How long Redis keeps a draft that nobody writes to. */
const draftSeconds = 24 * 60 * 60;

export interface RedisDraftPlace {
  readonly client: RedisClient;
  readonly artifactId: string;
  /** The key of a content. */
  keyOf(content: string): string;
  readonly maxBytes: number;
}

/** Content that is written to Redis chunk by chunk under its own key, which expires if the write is not continued. */
export class RedisDraft implements ArtifactDraft {
  readonly content = randomUUID();
  readonly #place: RedisDraftPlace;
  readonly #hash = createHash('sha256');
  readonly #rest = new PartBuffer(chunkBytes);
  #sent = 0;
  #size = 0;
  #isPublished = false;

  constructor(place: RedisDraftPlace) {
    this.#place = place;
  }

  get size(): number {
    return this.#size;
  }

  async add(bytes: Uint8Array): Promise<void> {
    const { maxBytes } = this.#place;
    if (this.#size + bytes.length > maxBytes) {
      const message = `A content has more than ${maxBytes} bytes; raise maxBytes, or keep large artifacts in a folder or in S3.`;
      throw new AgentLoopError('FULL', message);
    }
    this.#hash.update(bytes);
    this.#size += bytes.length;
    for (const chunk of this.#rest.fill(bytes)) await this.#send(chunk);
  }

  async complete(): Promise<WrittenContent> {
    // An empty content has one chunk too, so that it is there.
    if (this.#rest.bytes > 0 || this.#sent === 0) await this.#send(this.#rest.take());
    return { size: this.#size, sha256: this.#hash.digest('hex') };
  }

  /** From now on the content belongs to a version. */
  published(): void {
    this.#isPublished = true;
  }

  async discard(): Promise<void> {
    if (this.#isPublished || this.#sent === 0) return;
    await command(this.#place.client, 'unlink', this.#place.keyOf(this.content));
  }

  async #send(chunk: Uint8Array): Promise<void> {
    const { client, artifactId, keyOf } = this.#place;
    const args = [draftSeconds, this.#sent, Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)];
    await runArtifactScript(client, { script: 'chunk', key: keyOf(this.content), artifactId, args });
    this.#sent++;
  }
}

import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { appendPrivate } from '../../files/private-files.ts';
import type { ArtifactDraft, WrittenContent } from './artifact-shelf.ts';
import { syncFile } from './folder-files.ts';

/** The content of a version that is being written, in a folder of its own. */
export class FolderDraft implements ArtifactDraft {
  readonly path: string;
  readonly #hash = createHash('sha256');
  #size = 0;

  constructor(path: string) {
    this.path = path;
  }

  get size(): number {
    return this.#size;
  }

  async add(bytes: Uint8Array): Promise<void> {
    await appendPrivate(this.#content, bytes);
    this.#hash.update(bytes);
    this.#size += bytes.length;
  }

  async complete(): Promise<WrittenContent> {
    // A content without a chunk has no file yet.
    await appendPrivate(this.#content, '');
    await syncFile(this.#content);
    return { size: this.#size, sha256: this.#hash.digest('hex') };
  }

  /** A folder that was published stands elsewhere by then. */
  async discard(): Promise<void> {
    await rm(this.path, { recursive: true, force: true });
  }

  get #content(): string {
    return join(this.path, 'content');
  }
}

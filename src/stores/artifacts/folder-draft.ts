import { createHash } from 'node:crypto';
import { appendFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ArtifactInfo } from './artifact-store.ts';
import { syncFile } from './folder-files.ts';

/** The content of a version that is being written, in a folder of its own. */
export class FolderDraft {
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
    await appendFile(this.#content, bytes);
    this.#hash.update(bytes);
    this.#size += bytes.length;
  }

  /** Has the content written to the disk, and says what it is. No more can be added then. */
  async complete(): Promise<Pick<ArtifactInfo, 'size' | 'sha256'>> {
    // A content without a chunk has no file yet.
    await appendFile(this.#content, '');
    await syncFile(this.#content);
    return { size: this.#size, sha256: this.#hash.digest('hex') };
  }

  get #content(): string {
    return join(this.path, 'content');
  }
}

import { createHash } from 'node:crypto';
import type { ArtifactStore } from '../../core/contracts/index.ts';
import type { Pair, PromiseGroup } from '../contract/define-contract.ts';

export interface ArtifactStoreUnderTest extends Pair<ArtifactStore> {
  newId(): string;
  /** How large the largest content is, in bytes. */
  readonly largeBytes: number;
}

export type ArtifactCases = PromiseGroup<ArtifactStoreUnderTest>;

export function sha256Of(content: Uint8Array | string): string {
  return createHash('sha256').update(content).digest('hex');
}

/** The content of an artifact as text; null where it is not there. */
export async function textIn(store: ArtifactStore, artifactId: string, version?: number): Promise<string | null> {
  const artifact = await store.get(artifactId, version === undefined ? {} : { version });
  return artifact === null ? null : Buffer.from(artifact.content).toString('utf8');
}

/** All chunks of a content, as one. */
export async function bytesRead(store: ArtifactStore, artifactId: string, version?: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of store.read(artifactId, version === undefined ? {} : { version })) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Chunks of bytes that look like chance and are the same for the same seed. */
export function* randomChunks(totalBytes: number, chunkBytes: number, seed = 1): Generator<Buffer> {
  let state = seed;
  for (let done = 0; done < totalBytes; done += chunkBytes) {
    const chunk = Buffer.alloc(Math.min(chunkBytes, totalBytes - done));
    for (let at = 0; at + 4 <= chunk.length; at += 4) {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
      chunk.writeInt32LE(state, at);
    }
    yield chunk;
  }
}

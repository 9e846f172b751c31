import { describe, expect, it } from '@jest/globals';
import { InMemoryArtifactStore } from 'millrace';
import { artifactStoreContract } from 'millrace/testing';
import type {
  ArtifactChange,
  ArtifactContent,
  ArtifactQuery,
  ChunkOptions,
  NewArtifact,
  UpdateOptions,
  VersionOptions,
} from 'millrace/types';
import { runSuite } from './run-contract.ts';

class Overwrites extends InMemoryArtifactStore {
  override create(artifact: NewArtifact) {
    if (artifact.artifactId !== undefined && super.describe(artifact.artifactId)) super.delete(artifact.artifactId);
    return super.create(artifact);
  }
}

class NoCompare extends InMemoryArtifactStore {
  override update(artifactId: string, change: ArtifactChange, options: UpdateOptions = {}) {
    super.describe(artifactId, options);
    return super.update(artifactId, change);
  }
}

class OnlyNewest extends InMemoryArtifactStore {
  override get(artifactId: string, options: VersionOptions = {}) {
    super.describe(artifactId, options);
    return super.get(artifactId);
  }
}

class ShowsDrafts extends InMemoryArtifactStore {
  override append(artifactId: string, chunk: ArtifactContent, options: ChunkOptions = {}) {
    const before = Buffer.from(super.get(artifactId)?.content ?? []).toString();
    const answer = super.append(artifactId, chunk, options);
    if (options.last !== true) super.update(artifactId, { content: before + String(chunk) });
    return answer;
  }
}

class IgnoresOffset extends InMemoryArtifactStore {
  override append(artifactId: string, chunk: ArtifactContent, { last = false }: ChunkOptions = {}) {
    return super.append(artifactId, chunk, { last });
  }
}

class CutsChunks extends InMemoryArtifactStore {
  override async *read(artifactId: string, options: VersionOptions = {}) {
    for await (const chunk of super.read(artifactId, options)) yield chunk.subarray(0, 65_535);
  }
}

class AsText extends InMemoryArtifactStore {
  override create(artifact: NewArtifact) {
    const { content } = artifact;
    return super.create(
      content instanceof Uint8Array ? { ...artifact, content: Buffer.from(content).toString() } : artifact,
    );
  }
}

class ListsAll extends InMemoryArtifactStore {
  override list({ limit = 50, ...query }: ArtifactQuery = {}) {
    super.list({ limit, ...query });
    return super.list({ limit });
  }
}

class KeepsDrafts extends InMemoryArtifactStore {
  readonly #drafts = new Map<string, string>();
  override append(artifactId: string, chunk: ArtifactContent, options: ChunkOptions = {}) {
    const before = options.offset === undefined ? (this.#drafts.get(artifactId) ?? '') : '';
    const answer = super.append(artifactId, before === '' ? chunk : before + String(chunk), options);
    this.#drafts.delete(artifactId);
    if (options.last !== true) this.#drafts.set(artifactId, '');
    return answer;
  }
  override delete(artifactId: string): void {
    super.delete(artifactId);
    if (this.#drafts.has(artifactId)) this.#drafts.set(artifactId, 'old ');
  }
}

/** What is wrong, and the case that has to notice. */
const broken: readonly (readonly [Store: typeof InMemoryArtifactStore, title: string])[] = [
  [Overwrites, 'an id that is taken is a CONFLICT, and what stands there stays'],
  [NoCompare, 'an update that names an old version is a CONFLICT and changes nothing'],
  [OnlyNewest, 'an update makes a new version; older ones stay as they were'],
  [ShowsDrafts, 'chunks make up the content of the next version, which nobody sees before the last one'],
  [IgnoresOffset, 'a chunk that does not follow the draft is a CONFLICT, and offset 0 starts over'],
  [CutsChunks, 'a large content that is written in chunks is read back in chunks, byte for byte'],
  [AsText, 'contents come back byte for byte, whole and in chunks'],
  [ListsAll, 'artifacts are listed in their newest version, of a task, of a context, of both, or all'],
  [KeepsDrafts, 'a draft is deleted with its artifact'],
];

describe('artifactStoreContract', () => {
  it.each(broken)('notices %p', async (Store, title) => {
    const harness = { name: 'broken', createStore: () => new Store(), largeBytes: 200_000 };
    const { failed } = await runSuite((runner) => artifactStoreContract(harness, runner));
    expect([...failed.keys()]).toContain(title);
  });
});

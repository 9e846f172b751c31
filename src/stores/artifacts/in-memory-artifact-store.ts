import { createHash } from 'node:crypto';
import {
  AgentLoopError,
  type AppendedChunk,
  type Artifact,
  type ArtifactChange,
  type ArtifactContent,
  type ArtifactInfo,
  type ArtifactPage,
  type ArtifactQuery,
  type ArtifactStore,
  type ChunkOptions,
  type Clock,
  type NewArtifact,
  systemClock,
  type UpdateOptions,
  type VersionOptions,
} from '../../core/contracts/index.ts';
import { assertOptions, type OptionRules } from '../../options/option-rules.ts';
import { aMost, artifactStoreArguments, checkArguments } from '../check-arguments.ts';
import {
  artifactExists,
  artifactQueryOf,
  assertChunkOptions,
  assertId,
  assertVersion,
  bytesOf,
  checked,
  type GivenInfo,
  infoOf,
  isAskedFor,
  newerVersion,
  noArtifact,
  pageOf,
  wrongOffset,
} from './check-artifact.ts';
import { versionRules } from './versioned-artifact-store.ts';

/** Options of `InMemoryArtifactStore`. */
export interface InMemoryArtifactStoreOptions {
  /** The maximum size of all contents and drafts, in bytes. Default 256 MiB. */
  readonly maxBytes?: number | undefined;
  /** How many versions of an artifact are kept; older ones are dropped. Default 10. */
  readonly keepVersions?: number | undefined;
  /** Replaced in tests. Default: the system clock. */
  readonly clock?: Clock | undefined;
}

const rules: OptionRules<InMemoryArtifactStoreOptions> = { ...versionRules, maxBytes: aMost(1) };

interface Draft {
  readonly chunks: Uint8Array[];
  size: number;
}

const readBytes = 64 * 1024;

/**
 * Stores artifacts in the memory of this process: for tests, development, and temporary data.
 *
 * Every method except `read` answers synchronously, without a promise, and throws instead of rejecting.
 *
 * Memory: contents of all kept versions and drafts, at most `maxBytes`; a write beyond it is refused with `FULL`, as a whole.
 * Versions that do not change the content share it; it counts for each of them.
 */
export class InMemoryArtifactStore implements ArtifactStore {
  static {
    checkArguments(InMemoryArtifactStore.prototype, artifactStoreArguments);
  }

  readonly #clock: Clock;
  readonly #maxBytes: number;
  readonly #keepVersions: number;
  /** The kept versions of each artifact, the newest last. */
  readonly #artifacts = new Map<string, readonly Artifact[]>();
  readonly #drafts = new Map<string, Draft>();
  #bytes = 0;

  /** Errors: `INVALID_CONFIG`, naming the option. */
  constructor(options: InMemoryArtifactStoreOptions = {}) {
    assertOptions('InMemoryArtifactStore', options, rules);
    const { maxBytes = 256 * 1024 * 1024, keepVersions = 10, clock = systemClock } = options;
    this.#clock = clock;
    this.#maxBytes = maxBytes;
    this.#keepVersions = keepVersions;
  }

  create(artifact: NewArtifact): ArtifactInfo {
    const given = infoOf(artifact);
    const content = bytesOf(artifact.content === undefined ? '' : artifact.content);
    if (this.#artifacts.has(given.artifactId)) throw artifactExists(given.artifactId);
    const createdAt = this.#now();
    return this.#put([], { ...given, content, createdAt });
  }

  update(artifactId: string, change: ArtifactChange, options: UpdateOptions = {}): ArtifactInfo {
    assertVersion(options.version);
    const members = checked(change);
    const versions = this.#versions(artifactId);
    const newest = this.#newest(artifactId);
    const { version = newest.version } = options;
    if (version !== newest.version) throw newerVersion(artifactId, version, newest.version);
    const content = change.content === undefined ? newest.content : bytesOf(change.content);
    return this.#put(versions, { ...newest, ...members, content });
  }

  append(artifactId: string, chunk: ArtifactContent, options: ChunkOptions = {}): AppendedChunk {
    assertChunkOptions(options);
    const bytes = bytesOf(chunk);
    const newest = this.#newest(artifactId);
    const draft = this.#draft(artifactId, options.offset);
    this.#reserve(bytes.length, () => this.#dropDraft(artifactId));
    draft.chunks.push(bytes);
    draft.size += bytes.length;
    const { size, chunks } = draft;
    if (options.last !== true) return { size };
    this.#dropDraft(artifactId);
    const content = Buffer.concat(chunks);
    return { size, artifact: this.#put(this.#versions(artifactId), { ...newest, content }) };
  }

  describe(artifactId: string, options: VersionOptions = {}): ArtifactInfo | null {
    const artifact = this.#find(artifactId, options);
    return artifact === undefined ? null : infoWithout(artifact);
  }

  get(artifactId: string, options: VersionOptions = {}): Artifact | null {
    const artifact = this.#find(artifactId, options);
    return artifact === undefined ? null : { ...infoWithout(artifact), content: Uint8Array.from(artifact.content) };
  }

  async *read(artifactId: string, options: VersionOptions = {}): AsyncGenerator<Uint8Array> {
    const artifact = this.#find(artifactId, options);
    if (artifact === undefined) throw noArtifact(artifactId, options.version);
    const { content } = artifact;
    for (let from = 0; from < content.length; from += readBytes) yield content.slice(from, from + readBytes);
  }

  /** Sorts all ids. */
  list(query: ArtifactQuery = {}): ArtifactPage {
    const { limit, after } = artifactQueryOf(query);
    const infos = [...this.#artifacts.values()]
      .flatMap((versions) => versions.slice(-1))
      .filter((info) => info.artifactId > after && isAskedFor(info, query))
      .sort((one, other) => (one.artifactId < other.artifactId ? -1 : 1));
    return pageOf(infos.slice(0, limit + 1).map(infoWithout), limit);
  }

  delete(artifactId: string): void {
    assertId(artifactId);
    this.#dropDraft(artifactId);
    for (const { content } of this.#artifacts.get(artifactId) ?? []) this.#bytes -= content.length;
    this.#artifacts.delete(artifactId);
  }

  #find(artifactId: string, { version }: VersionOptions): Artifact | undefined {
    assertId(artifactId);
    assertVersion(version);
    const versions = this.#artifacts.get(artifactId) ?? [];
    return version === undefined ? versions.at(-1) : versions.find((artifact) => artifact.version === version);
  }

  #versions(artifactId: string): readonly Artifact[] {
    return this.#artifacts.get(artifactId) ?? [];
  }

  #newest(artifactId: string): Artifact {
    const newest = this.#find(artifactId, {});
    if (newest === undefined) throw noArtifact(artifactId);
    return newest;
  }

  #put(before: readonly Artifact[], given: GivenInfo & Pick<Artifact, 'content' | 'createdAt'>): ArtifactInfo {
    const { content } = given;
    this.#reserve(content.length, () => {});
    const artifact: Artifact = {
      ...given,
      version: (before.at(-1)?.version ?? 0) + 1,
      size: content.length,
      sha256: createHash('sha256').update(content).digest('hex'),
      updatedAt: before.length === 0 ? given.createdAt : this.#now(),
    };
    const all = [...before, artifact];
    for (const dropped of all.slice(0, -this.#keepVersions)) this.#bytes -= dropped.content.length;
    this.#artifacts.set(given.artifactId, all.slice(-this.#keepVersions));
    return infoWithout(artifact);
  }

  #draft(artifactId: string, offset: number | undefined): Draft {
    if (offset === 0) this.#dropDraft(artifactId);
    const draft = this.#drafts.get(artifactId) ?? { chunks: [], size: 0 };
    if (offset !== undefined && offset !== draft.size) throw wrongOffset(artifactId, offset, draft.size);
    this.#drafts.set(artifactId, draft);
    return draft;
  }

  #dropDraft(artifactId: string): void {
    this.#bytes -= this.#drafts.get(artifactId)?.size ?? 0;
    this.#drafts.delete(artifactId);
  }

  #reserve(bytes: number, giveUp: () => void): void {
    if (this.#bytes + bytes <= this.#maxBytes) {
      this.#bytes += bytes;
      return;
    }
    giveUp();
    throw new AgentLoopError(
      'FULL',
      `The artifacts in memory would have more than ${this.#maxBytes} bytes; delete some, raise maxBytes, or use a store on disk.`,
    );
  }

  #now(): string {
    return new Date(this.#clock.now()).toISOString();
  }
}

/** A copy of the info of an artifact. */
function infoWithout({ content: _, ...info }: Artifact): ArtifactInfo {
  return JSON.parse(JSON.stringify(info));
}

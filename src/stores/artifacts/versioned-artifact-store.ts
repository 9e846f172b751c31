import { createHash } from 'node:crypto';
import {
  type AgentLoopError,
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
import { aClock, type OptionRules, wholeNumber } from '../../options/option-rules.ts';
import { artifactStoreArguments, checkArguments } from '../check-arguments.ts';
import { InTurn } from '../in-turn.ts';
import {
  artifactExists,
  artifactQueryOf,
  assertChunkOptions,
  assertId,
  assertVersion,
  bytesOf,
  checked,
  damagedArtifact,
  infoOf,
  isAskedFor,
  newerVersion,
  noArtifact,
  pageOf,
  wrongOffset,
} from './check-artifact.ts';

/** The size and hash of a completely written content. */
export type WrittenContent = Pick<ArtifactInfo, 'size' | 'sha256'>;

/** The content of a version being written. Invisible until it is published. */
export interface ArtifactDraft {
  /** In bytes, so far. */
  readonly size: number;
  add(bytes: Uint8Array): Promise<void>;
  /** Makes the whole content durable, and returns its size and hash. Nothing can be added after that. */
  complete(): Promise<WrittenContent>;
  /** Deletes the content, unless it was published. */
  discard(): Promise<void>;
}

/** A version as a backend found it, with the backend's own data. */
export interface FoundVersion {
  readonly info: ArtifactInfo;
}

export interface NextVersion<Found, Draft> {
  readonly info: ArtifactInfo;
  /** The newest version, as it was found; absent for the first one. */
  readonly before?: Found;
  /** The content, complete. Absent: that of `before`. */
  readonly draft?: Draft;
}

/** The storage of versions: the interface of `VersionedArtifactStore` to a folder, a server or a bucket. */
export interface ArtifactBackend<Found extends FoundVersion, Draft extends ArtifactDraft> {
  newDraft(artifactId: string): Promise<Draft>;
  /** A version, by default the newest; `undefined` if it does not exist. */
  find(artifactId: string, version?: number): Promise<Found | undefined>;
  /** Publishes a version atomically. Returns false if the artifact has changed since it was found: find it again. */
  publish(next: NextVersion<Found, Draft>): Promise<boolean>;
  /** Drops all versions except the newest `keep`. A version that cannot be dropped now is dropped with the next publish. */
  dropOldVersions(artifactId: string, keep: number): Promise<void>;
  /** The content of a version in chunks. Errors: `NOT_FOUND` if it was dropped. */
  read(found: Found): AsyncIterable<Uint8Array>;
  /** The newest versions after an id, in the order of the ids; of the task, else of the context of the query. */
  infos(query: ArtifactQuery & { readonly after: string }): AsyncIterable<ArtifactInfo>;
  remove(artifactId: string): Promise<void>;
  /** Converts an exception of the other methods to an error of the contract. */
  errorOf(thrown: unknown): AgentLoopError;
}

/** The number of attempts if other writers change the same artifact. */
const attempts = 100;

export interface VersionedArtifactStoreOptions {
  /** How many versions of an artifact are kept; older ones are dropped. Default 10. */
  readonly keepVersions?: number | undefined;
  /** Replaced in tests. Default: the system clock. */
  readonly clock?: Clock | undefined;
}

/** The rules of these options, for those of a store. */
export const versionRules: OptionRules<VersionedArtifactStoreOptions> = { keepVersions: wholeNumber(1), clock: aClock };

interface Change<Draft> {
  readonly artifactId: string;
  readonly members?: Omit<ArtifactChange, 'content'>;
  /** Absent: the content is unchanged. */
  readonly draft?: Draft;
  /** The required newest version. */
  readonly version?: number | undefined;
}

/** The artifact store over any backend: validation, drafts, the order of calls, and retries after concurrent changes. */
export class VersionedArtifactStore<Found extends FoundVersion, Draft extends ArtifactDraft> implements ArtifactStore {
  static {
    checkArguments(VersionedArtifactStore.prototype, artifactStoreArguments);
  }

  readonly #backend: ArtifactBackend<Found, Draft>;
  readonly #clock: Clock;
  readonly #keepVersions: number;
  readonly #drafts = new Map<string, Draft>();
  readonly #inTurn = new InTurn();

  constructor(backend: ArtifactBackend<Found, Draft>, options: VersionedArtifactStoreOptions) {
    const { keepVersions = 10, clock = systemClock } = options;
    this.#backend = backend;
    this.#clock = clock;
    this.#keepVersions = keepVersions;
  }

  async create(artifact: NewArtifact): Promise<ArtifactInfo> {
    const given = infoOf(artifact);
    const bytes = bytesOf(artifact.content === undefined ? '' : artifact.content);
    const { artifactId } = given;
    return this.#mapped(async () => {
      if (await this.#backend.find(artifactId)) throw artifactExists(artifactId);
      return this.#withDraft(artifactId, bytes, async (draft, content) => {
        const now = this.#now();
        const info = { ...given, ...content, version: 1, createdAt: now, updatedAt: now };
        if (await this.#backend.publish({ info, draft })) return info;
        throw artifactExists(artifactId);
      });
    });
  }

  async update(artifactId: string, change: ArtifactChange, options: UpdateOptions = {}): Promise<ArtifactInfo> {
    assertId(artifactId);
    const { version } = options;
    assertVersion(version);
    const members = checked(change);
    const bytes = change.content === undefined ? undefined : bytesOf(change.content);
    return this.#mapped(async () => {
      if (bytes === undefined) return this.#publish({ artifactId, members, version });
      await this.#newest(artifactId, version);
      return this.#withDraft(artifactId, bytes, (draft, content) =>
        this.#publish({ artifactId, members, version, draft }, content),
      );
    });
  }

  async append(artifactId: string, chunk: ArtifactContent, options: ChunkOptions = {}): Promise<AppendedChunk> {
    assertId(artifactId);
    assertChunkOptions(options);
    const bytes = bytesOf(chunk);
    const append = async (): Promise<AppendedChunk> => {
      const draft = await this.#draft(artifactId, options.offset);
      try {
        await draft.add(bytes);
        const { size } = draft;
        if (options.last !== true) return { size };
        const artifact = await this.#publish({ artifactId, draft }, await draft.complete());
        this.#drafts.delete(artifactId);
        return { size, artifact };
      } catch (error) {
        await this.#dropDraft(artifactId);
        throw error;
      }
    };
    return this.#inTurn.run(artifactId, () => this.#mapped(append));
  }

  async describe(artifactId: string, options: VersionOptions = {}): Promise<ArtifactInfo | null> {
    const found = await this.#find(artifactId, options);
    return found?.info ?? null;
  }

  async get(artifactId: string, options: VersionOptions = {}): Promise<Artifact | null> {
    const found = await this.#find(artifactId, options);
    if (found === undefined) return null;
    const chunks: Uint8Array[] = [];
    for await (const chunk of this.#contentOf(found)) chunks.push(chunk);
    return { ...found.info, content: Buffer.concat(chunks) };
  }

  async *read(artifactId: string, options: VersionOptions = {}): AsyncGenerator<Uint8Array> {
    const found = await this.#find(artifactId, options);
    if (found === undefined) throw noArtifact(artifactId, options.version);
    yield* this.#contentOf(found);
  }

  async list(query: ArtifactQuery = {}): Promise<ArtifactPage> {
    const checkedQuery = artifactQueryOf(query);
    const { limit } = checkedQuery;
    const infos: ArtifactInfo[] = [];
    return this.#mapped(async () => {
      for await (const info of this.#backend.infos(checkedQuery)) {
        if (isAskedFor(info, checkedQuery)) infos.push(info);
        if (infos.length > limit) break;
      }
      return pageOf(infos, limit);
    });
  }

  async delete(artifactId: string): Promise<void> {
    assertId(artifactId);
    const remove = async (): Promise<void> => {
      await this.#dropDraft(artifactId);
      await this.#backend.remove(artifactId);
    };
    await this.#inTurn.run(artifactId, () => this.#mapped(remove));
  }

  async #find(artifactId: string, { version }: VersionOptions): Promise<Found | undefined> {
    assertId(artifactId);
    assertVersion(version);
    return this.#mapped(() => this.#backend.find(artifactId, version));
  }

  /** Compares the content with its info at the end. */
  async *#contentOf(found: Found): AsyncGenerator<Uint8Array> {
    const { artifactId, version, size, sha256 } = found.info;
    const hash = createHash('sha256');
    let bytes = 0;
    try {
      for await (const chunk of this.#backend.read(found)) {
        hash.update(chunk);
        bytes += chunk.length;
        yield chunk;
      }
      if (bytes === size && hash.digest('hex') === sha256) return;
      throw damagedArtifact(artifactId, `the content of version ${version} is not what was written`);
    } catch (error) {
      throw this.#backend.errorOf(error);
    }
  }

  /** Creates the version after the newest one; retries if another writer was faster, unless a version was requested. */
  async #publish(change: Change<Draft>, content?: WrittenContent): Promise<ArtifactInfo> {
    const { artifactId, members, draft, version: expected } = change;
    for (let attempt = 1; ; attempt++) {
      const before = await this.#newest(artifactId, expected);
      const version = before.info.version + 1;
      const info: ArtifactInfo = { ...before.info, ...members, ...content, version, updatedAt: this.#now() };
      if (await this.#backend.publish({ info, before, ...(draft && { draft }) })) {
        await this.#backend.dropOldVersions(artifactId, this.#keepVersions).catch(() => {});
        return info;
      }
      if (attempt === attempts) throw newerVersion(artifactId, before.info.version, version);
    }
  }

  async #newest(artifactId: string, expected?: number): Promise<Found> {
    const newest = await this.#backend.find(artifactId);
    if (newest === undefined) throw noArtifact(artifactId);
    const { version } = newest.info;
    if (expected !== undefined && expected !== version) throw newerVersion(artifactId, expected, version);
    return newest;
  }

  async #draft(artifactId: string, offset: number | undefined): Promise<Draft> {
    if (offset === 0) await this.#dropDraft(artifactId);
    const known = this.#drafts.get(artifactId);
    // The last chunk checks again.
    if (known === undefined) await this.#newest(artifactId);
    const { size } = known ?? { size: 0 };
    if (offset !== undefined && offset !== size) throw wrongOffset(artifactId, offset, size);
    const draft = known ?? (await this.#backend.newDraft(artifactId));
    this.#drafts.set(artifactId, draft);
    return draft;
  }

  async #dropDraft(artifactId: string): Promise<void> {
    const draft = this.#drafts.get(artifactId);
    this.#drafts.delete(artifactId);
    await draft?.discard();
  }

  async #withDraft<T>(
    artifactId: string,
    bytes: Uint8Array,
    run: (draft: Draft, content: WrittenContent) => Promise<T>,
  ): Promise<T> {
    const draft = await this.#backend.newDraft(artifactId);
    try {
      await draft.add(bytes);
      return await run(draft, await draft.complete());
    } finally {
      await draft.discard();
    }
  }

  async #mapped<T>(run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (error) {
      throw this.#backend.errorOf(error);
    }
  }

  #now(): string {
    return new Date(this.#clock.now()).toISOString();
  }
}

/** Splits chunks of any size into parts of one size, and buffers the incomplete part. */
export class PartBuffer {
  readonly #partBytes: number;
  #pieces: Uint8Array[] = [];
  #bytes = 0;

  constructor(partBytes: number) {
    this.#partBytes = partBytes;
  }

  /** The number of buffered bytes: less than a part. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Adds a chunk, and yields the parts that it completes. */
  *fill(piece: Uint8Array): Generator<Uint8Array> {
    for (let from = 0; from < piece.length; ) {
      const taken = piece.subarray(from, from + this.#partBytes - this.#bytes);
      this.#pieces.push(taken);
      this.#bytes += taken.length;
      from += taken.length;
      if (this.#bytes === this.#partBytes) yield this.take();
    }
  }

  /** Returns the buffered bytes, and empties the buffer. */
  take(): Uint8Array {
    const only = this.#pieces.length === 1 ? this.#pieces[0] : undefined;
    const whole = only ?? Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#bytes = 0;
    return whole;
  }
}

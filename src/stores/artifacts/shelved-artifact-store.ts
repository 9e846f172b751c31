import {
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
import { artifactStoreArguments, checkArguments } from '../check-arguments.ts';
import { artifactExists, newerVersion, noArtifact, wrongOffset } from './artifact-errors.ts';
import type { ArtifactDraft, ArtifactShelf, FoundVersion, WrittenContent } from './artifact-shelf.ts';
import {
  artifactQueryOf,
  assertChunkOptions,
  assertId,
  assertKeepVersions,
  assertVersion,
  bytesOf,
  checked,
  infoOf,
  isAskedFor,
  pageOf,
} from './check-artifact.ts';
import { InTurn } from './in-turn.ts';

/** How often to try where others change the same artifact. */
const attempts = 100;

export interface ShelvedArtifactStoreOptions {
  /** How many versions of an artifact are kept; the oldest go first. Default 10. */
  readonly keepVersions?: number | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

interface Change<Draft> {
  readonly artifactId: string;
  readonly members?: Omit<ArtifactChange, 'content'>;
  /** Absent: the content stays. */
  readonly draft?: Draft;
  /** The version that the newest one has to be. */
  readonly version?: number | undefined;
}

/** The artifact store over any shelf: checks, drafts, the order of calls, and versions made on what others left. */
export class ShelvedArtifactStore<Found extends FoundVersion, Draft extends ArtifactDraft> implements ArtifactStore {
  static {
    checkArguments(ShelvedArtifactStore.prototype, artifactStoreArguments);
  }

  readonly #shelf: ArtifactShelf<Found, Draft>;
  readonly #clock: Clock;
  readonly #keepVersions: number;
  readonly #drafts = new Map<string, Draft>();
  readonly #inTurn = new InTurn();

  /** Errors: `INVALID_CONFIG`. */
  constructor(shelf: ArtifactShelf<Found, Draft>, options: ShelvedArtifactStoreOptions) {
    const { keepVersions = 10, clock = systemClock } = options;
    assertKeepVersions(keepVersions);
    this.#shelf = shelf;
    this.#clock = clock;
    this.#keepVersions = keepVersions;
  }

  async create(artifact: NewArtifact): Promise<ArtifactInfo> {
    const given = infoOf(artifact);
    const bytes = bytesOf(artifact.content === undefined ? '' : artifact.content);
    const { artifactId } = given;
    return this.#mapped(async () => {
      if (await this.#shelf.find(artifactId)) throw artifactExists(artifactId);
      return this.#withDraft(artifactId, bytes, async (draft, content) => {
        const now = this.#now();
        const info = { ...given, ...content, version: 1, createdAt: now, updatedAt: now };
        if (await this.#shelf.publish({ info, draft })) return info;
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
      for await (const info of this.#shelf.infos(checkedQuery)) {
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
      await this.#shelf.remove(artifactId);
    };
    await this.#inTurn.run(artifactId, () => this.#mapped(remove));
  }

  async #find(artifactId: string, { version }: VersionOptions): Promise<Found | undefined> {
    assertId(artifactId);
    assertVersion(version);
    return this.#mapped(() => this.#shelf.find(artifactId, version));
  }

  async *#contentOf(found: Found): AsyncGenerator<Uint8Array> {
    try {
      yield* this.#shelf.read(found);
    } catch (error) {
      throw this.#shelf.errorOf(error);
    }
  }

  /** Creates the version after the newest one; retries if another writer was faster, unless a version was requested. */
  async #publish(change: Change<Draft>, content?: WrittenContent): Promise<ArtifactInfo> {
    const { artifactId, members, draft, version: expected } = change;
    for (let attempt = 1; ; attempt++) {
      const before = await this.#newest(artifactId, expected);
      const version = before.info.version + 1;
      const info: ArtifactInfo = { ...before.info, ...members, ...content, version, updatedAt: this.#now() };
      if (await this.#shelf.publish({ info, before, ...(draft && { draft }) })) {
        await this.#shelf.dropOldVersions(artifactId, this.#keepVersions).catch(() => {});
        return info;
      }
      if (attempt === attempts) throw newerVersion(artifactId, before.info.version, version);
    }
  }

  async #newest(artifactId: string, expected?: number): Promise<Found> {
    const newest = await this.#shelf.find(artifactId);
    if (newest === undefined) throw noArtifact(artifactId);
    const { version } = newest.info;
    if (expected !== undefined && expected !== version) throw newerVersion(artifactId, expected, version);
    return newest;
  }

  async #draft(artifactId: string, offset: number | undefined): Promise<Draft> {
    if (offset === 0) await this.#dropDraft(artifactId);
    const known = this.#drafts.get(artifactId);
    // The last chunk looks again.
    if (known === undefined) await this.#newest(artifactId);
    const { size } = known ?? { size: 0 };
    if (offset !== undefined && offset !== size) throw wrongOffset(artifactId, offset, size);
    const draft = known ?? (await this.#shelf.newDraft(artifactId));
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
    const draft = await this.#shelf.newDraft(artifactId);
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
      throw this.#shelf.errorOf(error);
    }
  }

  #now(): string {
    return new Date(this.#clock.now()).toISOString();
  }
}

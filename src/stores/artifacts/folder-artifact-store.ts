import { type Clock, systemClock } from '../../core/clock.ts';
import { AgentLoopError } from '../../core/errors.ts';
import { assertKnownOptions, type OptionNames } from '../known-options.ts';
import { artifactExists, newerVersion, noArtifact, wrongOffset } from './artifact-errors.ts';
import { ArtifactFolder } from './artifact-folder.ts';
import type {
  AppendedChunk,
  Artifact,
  ArtifactChange,
  ArtifactContent,
  ArtifactInfo,
  ArtifactPage,
  ArtifactQuery,
  ArtifactStore,
  ChunkOptions,
  NewArtifact,
  UpdateOptions,
  VersionOptions,
} from './artifact-store.ts';
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
import { FolderDraft } from './folder-draft.ts';
import { fileError, isMissing } from './folder-files.ts';

export interface FolderArtifactStoreOptions {
  /** How many versions of an artifact are kept; the oldest go first. Default 10. */
  readonly keepVersions?: number;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock;
}

const optionNames: OptionNames<FolderArtifactStoreOptions> = { keepVersions: true, clock: true };

/** How often to try where other processes change the same artifact. */
const attempts = 100;

interface NextVersion {
  readonly draft: FolderDraft;
  readonly artifactId: string;
  /** What else changes. */
  readonly members?: Omit<ArtifactChange, 'content'>;
  /** What the content of the draft is; the one of the newest version where it has none. */
  readonly content: Pick<ArtifactInfo, 'size' | 'sha256'> | undefined;
  /** The version that the newest one has to be. */
  readonly version?: number | undefined;
}

/**
 * Keeps artifacts in the files of a folder, shared by any number of processes of one machine.
 *
 * A version is a folder that appears by one rename, after its files are on the disk: `kill -9` at any instruction and a power cut leave
 * it whole or not at all, and of two processes that write the same version one gets the next. No id, name or media type becomes a
 * path: ids are encoded, all else stands inside of files. `read` compares content and hash. The folder is made at the first write.
 *
 * Errors besides the contract's: `INVALID_CONFIG` here; `FULL` where the disk is, `UNAVAILABLE` where the folder cannot be read or
 * written, both retryable. `list` reads all file names of the task, the context or the store, and one file an artifact.
 *
 * Memory: a chunk of 64 KiB a reader, the chunk that is written, and about 1 KiB a draft; contents only in `get`, `create` and
 * `update`. Drafts that nobody wrote to for a day are removed when a store first writes to the folder.
 */
export function folderArtifactStore(path: string, options: FolderArtifactStoreOptions = {}): ArtifactStore {
  return new FolderArtifactStore(path, options);
}

class FolderArtifactStore implements ArtifactStore {
  readonly #clock: Clock;
  readonly #keepVersions: number;
  readonly #folder: ArtifactFolder;
  readonly #drafts = new Map<string, FolderDraft>();
  /** The last call of each artifact that has to wait for the one before. */
  readonly #queues = new Map<string, Promise<unknown>>();

  constructor(path: string, options: FolderArtifactStoreOptions) {
    if (typeof path !== 'string' || path === '') {
      throw new AgentLoopError('INVALID_CONFIG', 'The artifact store needs a path: the folder that its files lie in.');
    }
    assertKnownOptions('folderArtifactStore', options, optionNames);
    const { keepVersions = 10, clock = systemClock } = options;
    assertKeepVersions(keepVersions);
    this.#clock = clock;
    this.#keepVersions = keepVersions;
    this.#folder = new ArtifactFolder(path);
  }

  async create(artifact: NewArtifact): Promise<ArtifactInfo> {
    const given = infoOf(artifact);
    const bytes = bytesOf(artifact.content === undefined ? '' : artifact.content);
    const { artifactId } = given;
    return this.#withDraft(async (draft) => {
      if (await this.#folder.info(artifactId)) throw artifactExists(artifactId);
      await draft.add(bytes);
      const now = this.#now();
      const info = { ...given, ...(await draft.complete()), version: 1, createdAt: now, updatedAt: now };
      if (await this.#folder.publish(draft.path, info)) return info;
      throw artifactExists(artifactId);
    });
  }

  async update(artifactId: string, change: ArtifactChange, options: UpdateOptions = {}): Promise<ArtifactInfo> {
    assertId(artifactId);
    const { version } = options;
    assertVersion(version);
    const members = checked(change);
    const bytes = change.content === undefined ? undefined : bytesOf(change.content);
    return this.#withDraft(async (draft) => {
      await this.#newest(artifactId, version);
      if (bytes !== undefined) await draft.add(bytes);
      const content = bytes === undefined ? undefined : await draft.complete();
      return this.#publish({ draft, artifactId, members, content, version });
    });
  }

  async append(artifactId: string, chunk: ArtifactContent, options: ChunkOptions = {}): Promise<AppendedChunk> {
    assertId(artifactId);
    assertChunkOptions(options);
    const bytes = bytesOf(chunk);
    return this.#inTurn(artifactId, async () => {
      await this.#newest(artifactId);
      const draft = await this.#draft(artifactId, options.offset);
      try {
        await draft.add(bytes);
        const { size } = draft;
        if (options.last !== true) return { size };
        const artifact = await this.#publish({ draft, artifactId, content: await draft.complete() });
        this.#drafts.delete(artifactId);
        return { size, artifact };
      } catch (error) {
        await this.#dropDraft(artifactId);
        throw error;
      }
    });
  }

  async describe(artifactId: string, options: VersionOptions = {}): Promise<ArtifactInfo | null> {
    assertId(artifactId);
    assertVersion(options.version);
    return this.#files(async () => (await this.#folder.info(artifactId, options.version)) ?? null);
  }

  async get(artifactId: string, options: VersionOptions = {}): Promise<Artifact | null> {
    const info = await this.describe(artifactId, options);
    if (info === null) return null;
    const chunks: Uint8Array[] = [];
    for await (const chunk of this.read(artifactId, { version: info.version })) chunks.push(chunk);
    return { ...info, content: Buffer.concat(chunks) };
  }

  async *read(artifactId: string, options: VersionOptions = {}): AsyncGenerator<Uint8Array> {
    const info = await this.describe(artifactId, options);
    if (info === null) throw noArtifact(artifactId, options.version);
    try {
      yield* this.#folder.read(info);
    } catch (error) {
      throw isMissing(error) ? noArtifact(artifactId, info.version) : fileError(error, this.#folder.path);
    }
  }

  async list(query: ArtifactQuery = {}): Promise<ArtifactPage> {
    const { limit, after } = artifactQueryOf(query);
    const infos: ArtifactInfo[] = [];
    return this.#files(async () => {
      for await (const info of this.#folder.infos(after, query)) {
        if (isAskedFor(info, query)) infos.push(info);
        if (infos.length > limit) break;
      }
      return pageOf(infos, limit);
    });
  }

  async delete(artifactId: string): Promise<void> {
    assertId(artifactId);
    await this.#inTurn(artifactId, async () => {
      await this.#dropDraft(artifactId);
      await this.#folder.remove(artifactId);
    });
  }

  /** Makes a draft the version behind the newest one; again where another process was faster, unless a version was asked for. */
  async #publish({ draft, artifactId, members, content, version: expected }: NextVersion): Promise<ArtifactInfo> {
    for (let attempt = 1; ; attempt++) {
      const newest = await this.#newest(artifactId, expected);
      const version = newest.version + 1;
      const info: ArtifactInfo = { ...newest, ...members, ...content, version, updatedAt: this.#now() };
      try {
        if (content === undefined) await this.#folder.shareContent(newest, draft.path);
        const isFirst = await this.#folder.publish(draft.path, info);
        if (!isFirst && attempt < attempts) continue;
        if (!isFirst) throw newerVersion(artifactId, newest.version, version);
      } catch (error) {
        // The artifact was deleted meanwhile, or its newest version dropped.
        if (isMissing(error) && attempt < attempts) continue;
        throw error;
      }
      await this.#dropOldVersions(artifactId);
      return info;
    }
  }

  /** What cannot be dropped now is dropped with the next version. */
  async #dropOldVersions(artifactId: string): Promise<void> {
    const versions = await this.#folder.versions(artifactId).catch(() => []);
    for (const version of versions.slice(0, -this.#keepVersions)) {
      await this.#folder.removeVersion(artifactId, version).catch(() => {});
    }
  }

  async #newest(artifactId: string, expected?: number): Promise<ArtifactInfo> {
    const newest = await this.#folder.info(artifactId);
    if (newest === undefined) throw noArtifact(artifactId);
    if (expected !== undefined && expected !== newest.version) {
      throw newerVersion(artifactId, expected, newest.version);
    }
    return newest;
  }

  async #draft(artifactId: string, offset: number | undefined): Promise<FolderDraft> {
    if (offset === 0) await this.#dropDraft(artifactId);
    const known = this.#drafts.get(artifactId);
    const { size } = known ?? { size: 0 };
    if (offset !== undefined && offset !== size) throw wrongOffset(artifactId, offset, size);
    const draft = known ?? (await this.#newDraft());
    this.#drafts.set(artifactId, draft);
    return draft;
  }

  async #newDraft(): Promise<FolderDraft> {
    return new FolderDraft(await this.#folder.newDraft());
  }

  async #dropDraft(artifactId: string): Promise<void> {
    const draft = this.#drafts.get(artifactId);
    this.#drafts.delete(artifactId);
    if (draft) await this.#folder.removeDraft(draft.path);
  }

  #withDraft<T>(run: (draft: FolderDraft) => Promise<T>): Promise<T> {
    return this.#files(async () => {
      const draft = await this.#newDraft();
      try {
        return await run(draft);
      } finally {
        await this.#folder.removeDraft(draft.path);
      }
    });
  }

  /** Runs behind what was called before for this artifact. */
  #inTurn<T>(artifactId: string, run: () => Promise<T>): Promise<T> {
    const before = this.#queues.get(artifactId) ?? Promise.resolve();
    const call = before.then(() => this.#files(run));
    const settled = call.then(
      () => {},
      () => {},
    );
    this.#queues.set(artifactId, settled);
    void settled.then(() => {
      if (this.#queues.get(artifactId) === settled) this.#queues.delete(artifactId);
    });
    return call;
  }

  async #files<T>(run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (error) {
      throw fileError(error, this.#folder.path);
    }
  }

  #now(): string {
    return new Date(this.#clock.now()).toISOString();
  }
}

import { createHash, randomUUID } from 'node:crypto';
import { copyFile, type FileHandle, link, open, readFile, rename, rm, rmdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import {
  AgentLoopError,
  type ArtifactInfo,
  type ArtifactQuery,
  type ArtifactStore,
} from '../../core/contracts/index.ts';
import { assertOptions } from '../../options/option-rules.ts';
import { appendPrivate, makeFolder, writePrivate } from '../../private-files.ts';
import { damagedArtifact, noArtifact } from './check-artifact.ts';
import {
  fileError,
  fileNameOf,
  idOfFileName,
  isMissing,
  isTaken,
  mark,
  namesIn,
  removeFolder,
  syncFile,
  syncFolder,
} from './folder-files.ts';
import {
  type ArtifactBackend,
  type ArtifactDraft,
  type FoundVersion,
  type NextVersion,
  VersionedArtifactStore,
  type VersionedArtifactStoreOptions,
  versionRules,
  type WrittenContent,
} from './versioned-artifact-store.ts';

/** Options of `folderArtifactStore`. */
export interface FolderArtifactStoreOptions extends VersionedArtifactStoreOptions {}

/**
 * Stores artifacts in the files of a folder, shared by any number of processes of one machine.
 *
 * A version is a folder that appears by one rename, after its files are synced: after `kill -9` at any instruction or a power cut
 * it exists as a whole or not at all, and if two processes write the same version, one gets the next number. No id, name or media type becomes a
 * path: ids are encoded, everything else is inside files. `read` compares content and hash. The folder is created at the first write.
 *
 * Errors besides the contract's: `INVALID_CONFIG` here; `FULL` if the disk is full, `UNAVAILABLE` if the folder cannot be read or
 * written, both retryable. `list` reads all file names of the task, the context or the store, and one file per artifact.
 *
 * Memory: a chunk of 64 KiB per reader, the chunk being written, and about 1 KiB per draft; whole contents only in `get`, `create` and
 * `update`. Drafts without a write for a day are removed when a store first writes to the folder.
 */
export function folderArtifactStore(path: string, options: FolderArtifactStoreOptions = {}): ArtifactStore {
  if (typeof path !== 'string' || path === '') {
    throw new AgentLoopError('INVALID_CONFIG', 'The artifact store needs a path: the folder that its files lie in.');
  }
  assertOptions('folderArtifactStore', options, versionRules);
  return new VersionedArtifactStore(new ArtifactFolder(path), options);
}

/** A draft without a write for this long belongs to a crashed process. */
const staleMs = 24 * 60 * 60 * 1000;
const chunkBytes = 64 * 1024;

/**
 * The files of an artifact store:
 *
 *     artifacts/<id>/<version>/info.json, content     one folder per version, which appears by one rename and never changes
 *     tasks/<task id>/<id>, contexts/<context id>/<id>   empty, for `list`; written before the artifact, so that none is unlisted
 *     drafts/<uuid>/                                  versions being written
 *     trash/<uuid>/                                   folders being deleted
 *
 * Ids are encoded by `fileNameOf`. Throws the errors of the file system, which `errorOf` converts.
 */
class ArtifactFolder implements ArtifactBackend<FoundVersion, FolderDraft> {
  readonly path: string;
  #prepared: Promise<void> | undefined;

  constructor(path: string) {
    this.path = path;
  }

  /** The existing version numbers, in order. */
  async #versions(artifactId: string): Promise<readonly number[]> {
    const names = await namesIn(this.#artifact(artifactId));
    return names
      .map(Number)
      .filter((number) => Number.isSafeInteger(number))
      .sort((one, other) => one - other);
  }

  async find(artifactId: string, version?: number): Promise<FoundVersion | undefined> {
    const info = await this.#info(artifactId, version);
    return info && { info };
  }

  async #info(artifactId: string, version?: number): Promise<ArtifactInfo | undefined> {
    const number = version ?? (await this.#versions(artifactId)).at(-1);
    if (number === undefined) return undefined;
    try {
      return infoIn(artifactId, await readFile(join(this.#version(artifactId, number), 'info.json'), 'utf8'));
    } catch (error) {
      if (!isMissing(error)) throw error;
      // The newest version was dropped meanwhile: there is a newer one, or none.
      return version === undefined && (await this.#versions(artifactId)).at(-1) !== number
        ? this.#info(artifactId)
        : undefined;
    }
  }

  #contentPath({ artifactId, version }: ArtifactInfo): string {
    return join(this.#version(artifactId, version), 'content');
  }

  async *read({ info }: FoundVersion): AsyncGenerator<Uint8Array> {
    const file = await this.#open(info);
    try {
      for (;;) {
        const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(chunkBytes), 0, chunkBytes);
        if (bytesRead === 0) break;
        yield buffer.subarray(0, bytesRead);
      }
    } finally {
      await file.close();
    }
  }

  async newDraft(): Promise<FolderDraft> {
    await this.#ready();
    const draft = new FolderDraft(join(this.path, 'drafts', randomUUID()));
    await makeFolder(draft.path, { recursive: false });
    return draft;
  }

  /** Publishes the draft as the version; without a draft, a new one with the content of the previous version. */
  async publish({ info, before, draft }: NextVersion<FoundVersion, FolderDraft>): Promise<boolean> {
    if (draft || !before) return this.#publish(info, draft ?? (await this.newDraft()));
    const shared = await this.newDraft();
    try {
      await this.#shareContent(before.info, shared.path);
      return await this.#publish(info, shared);
    } catch (error) {
      // The artifact was deleted meanwhile, or its newest version dropped.
      if (isMissing(error)) return false;
      throw error;
    } finally {
      await shared.discard();
    }
  }

  async dropOldVersions(artifactId: string, keep: number): Promise<void> {
    const versions = await this.#versions(artifactId);
    for (const version of versions.slice(0, -keep)) {
      await removeFolder(this.#version(artifactId, version), this.#newTrash());
    }
  }

  async remove(artifactId: string): Promise<void> {
    const info = await this.#info(artifactId);
    if (info === undefined) return;
    await this.#ready();
    await removeFolder(this.#artifact(artifactId), this.#newTrash());
    const name = fileNameOf(artifactId);
    const { taskId, contextId } = info;
    if (taskId !== undefined) await unmark(join(this.path, 'tasks', fileNameOf(taskId)), name);
    if (contextId !== undefined) await unmark(join(this.path, 'contexts', fileNameOf(contextId)), name);
  }

  async *infos({ after, ...query }: ArtifactQuery & { readonly after: string }): AsyncGenerator<ArtifactInfo> {
    const names = await namesIn(this.#listOf(query));
    const first = fileNameOf(after);
    for (const name of names.filter((found) => found > first).sort()) {
      const info = await this.#info(idOfFileName(name));
      if (info) yield info;
    }
  }

  errorOf(thrown: unknown): AgentLoopError {
    return fileError(thrown, this.path);
  }

  async #open(info: ArtifactInfo): Promise<FileHandle> {
    try {
      return await open(this.#contentPath(info), 'r');
    } catch (error) {
      throw isMissing(error) ? noArtifact(info.artifactId, info.version) : error;
    }
  }

  /** Contents never change, so versions can share a file. */
  async #shareContent(info: ArtifactInfo, draft: string): Promise<void> {
    const [from, to] = [this.#contentPath(info), join(draft, 'content')];
    try {
      await link(from, to);
    } catch (error) {
      if (isMissing(error)) throw error;
      await copyFile(from, to);
      await syncFile(to);
    }
  }

  async #publish(info: ArtifactInfo, draft: FolderDraft): Promise<boolean> {
    const { artifactId, version, taskId, contextId } = info;
    const infoPath = join(draft.path, 'info.json');
    await writePrivate(infoPath, JSON.stringify(info));
    await syncFile(infoPath);
    await syncFolder(draft.path);
    const name = fileNameOf(artifactId);
    if (taskId !== undefined) await mark(join(this.path, 'tasks', fileNameOf(taskId)), name);
    if (contextId !== undefined) await mark(join(this.path, 'contexts', fileNameOf(contextId)), name);
    if (version === 1) await makeFolder(this.#artifact(artifactId));
    if (!(await this.#rename(draft.path, this.#version(artifactId, version)))) return false;
    await syncFolder(this.#artifact(artifactId));
    if (version === 1) await syncFolder(join(this.path, 'artifacts'));
    return true;
  }

  /** Returns false if the version exists already, or its artifact was deleted. */
  async #rename(draft: string, version: string): Promise<boolean> {
    try {
      await rename(draft, version);
      return true;
    } catch (error) {
      if (isTaken(error) || isMissing(error)) return false;
      throw error;
    }
  }

  #listOf({ taskId, contextId }: ArtifactQuery): string {
    if (taskId !== undefined) return join(this.path, 'tasks', fileNameOf(taskId));
    if (contextId !== undefined) return join(this.path, 'contexts', fileNameOf(contextId));
    return join(this.path, 'artifacts');
  }

  #artifact(artifactId: string): string {
    return join(this.path, 'artifacts', fileNameOf(artifactId));
  }

  #version(artifactId: string, version: number): string {
    return join(this.#artifact(artifactId), String(version));
  }

  #newTrash(): string {
    return join(this.path, 'trash', randomUUID());
  }

  #ready(): Promise<void> {
    this.#prepared ??= this.#prepare().catch((error: unknown) => {
      this.#prepared = undefined;
      throw error;
    });
    return this.#prepared;
  }

  /** Creates the folders, and removes leftovers of crashed processes. */
  async #prepare(): Promise<void> {
    const folders = ['artifacts', 'drafts', 'trash'].map((name) => join(this.path, name));
    for (const folder of folders) await makeFolder(folder);
    for (const folder of folders.slice(1)) {
      for (const name of await namesIn(folder)) await removeStale(join(folder, name));
    }
  }
}

async function removeStale(path: string): Promise<void> {
  const touched = await Promise.all([path, join(path, 'content')].map(lastChange));
  if (Math.max(...touched) < Date.now() - staleMs) await rm(path, { recursive: true, force: true });
}

async function lastChange(path: string): Promise<number> {
  try {
    return (await stat(path)).mtimeMs;
  } catch (error) {
    if (isMissing(error)) return 0;
    throw error;
  }
}

async function unmark(folder: string, name: string): Promise<void> {
  await rm(join(folder, name), { force: true });
  // Only the last process finds the folder empty.
  await rmdir(folder).catch(() => {});
}

function infoIn(artifactId: string, text: string): ArtifactInfo {
  try {
    const info: ArtifactInfo = JSON.parse(text);
    if (info.artifactId === artifactId && typeof info.size === 'number') return info;
  } catch {
    throw damagedArtifact(artifactId, 'its info.json is damaged');
  }
  throw damagedArtifact(artifactId, 'its info.json is that of another artifact');
}

/** The content of a version being written, in its own folder. */
class FolderDraft implements ArtifactDraft {
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
    // A content without chunks has no file yet.
    await appendPrivate(this.#content, '');
    await syncFile(this.#content);
    return { size: this.#size, sha256: this.#hash.digest('hex') };
  }

  /** A published folder has been moved by then. */
  async discard(): Promise<void> {
    await rm(this.path, { recursive: true, force: true });
  }

  get #content(): string {
    return join(this.path, 'content');
  }
}

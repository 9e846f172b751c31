import { createHash, randomUUID } from 'node:crypto';
import { copyFile, link, mkdir, open, readFile, rename, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { damagedArtifact } from './artifact-errors.ts';
import type { ArtifactInfo } from './artifact-store.ts';
import { fileNameOf, idOfFileName } from './file-name.ts';
import { isMissing, isTaken, mark, namesIn, removeFolder, syncFile, syncFolder } from './folder-files.ts';

/** A draft that nobody wrote to for as long was left by a process that died. */
const staleMs = 24 * 60 * 60 * 1000;
const chunkBytes = 64 * 1024;

/**
 * The files of an artifact store:
 *
 *     artifacts/<id>/<version>/info.json, content     one folder a version, which appears by one rename and never changes
 *     tasks/<task id>/<id>, contexts/<context id>/<id>   empty, for `list`; written before the artifact, so that none is unlisted
 *     drafts/<uuid>/                                  versions that are being written
 *     trash/<uuid>/                                   what is being deleted
 *
 * Ids stand there as `fileNameOf` writes them. Throws what the file system throws, and `POISON`.
 */
export class ArtifactFolder {
  readonly path: string;
  #prepared: Promise<void> | undefined;

  constructor(path: string) {
    this.path = path;
  }

  /** The version numbers that are there, in order. */
  async versions(artifactId: string): Promise<readonly number[]> {
    const names = await namesIn(this.#artifact(artifactId));
    return names
      .map(Number)
      .filter((number) => Number.isSafeInteger(number))
      .sort((one, other) => one - other);
  }

  /** What is known of a version, by default the newest; undefined where it is not there. */
  async info(artifactId: string, version?: number): Promise<ArtifactInfo | undefined> {
    const number = version ?? (await this.versions(artifactId)).at(-1);
    if (number === undefined) return undefined;
    try {
      return infoIn(artifactId, await readFile(join(this.#version(artifactId, number), 'info.json'), 'utf8'));
    } catch (error) {
      if (!isMissing(error)) throw error;
      // The newest one was dropped while it was looked for: a newer one is there, or none.
      return version === undefined && (await this.versions(artifactId)).at(-1) !== number
        ? this.info(artifactId)
        : undefined;
    }
  }

  #contentPath({ artifactId, version }: ArtifactInfo): string {
    return join(this.#version(artifactId, version), 'content');
  }

  /** The content of a version in chunks, compared with its info in the end. Errors: `POISON`. */
  async *read(info: ArtifactInfo): AsyncGenerator<Uint8Array> {
    const file = await open(this.#contentPath(info), 'r');
    const hash = createHash('sha256');
    let size = 0;
    try {
      for (;;) {
        const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(chunkBytes), 0, chunkBytes);
        if (bytesRead === 0) break;
        const chunk = buffer.subarray(0, bytesRead);
        hash.update(chunk);
        size += bytesRead;
        yield chunk;
      }
    } finally {
      await file.close();
    }
    if (size === info.size && hash.digest('hex') === info.sha256) return;
    throw damagedArtifact(info.artifactId, `the content of version ${info.version} is not what was written`);
  }

  /** A new folder to write a version in. */
  async newDraft(): Promise<string> {
    await this.#ready();
    const draft = join(this.path, 'drafts', randomUUID());
    await mkdir(draft);
    return draft;
  }

  async removeDraft(draft: string): Promise<void> {
    await rm(draft, { recursive: true, force: true });
  }

  /** Gives a draft the content of a version. Contents never change, so both can be one file. */
  async shareContent(info: ArtifactInfo, draft: string): Promise<void> {
    const [from, to] = [this.#contentPath(info), join(draft, 'content')];
    await rm(to, { force: true });
    try {
      await link(from, to);
    } catch (error) {
      if (isMissing(error)) throw error;
      await copyFile(from, to);
      await syncFile(to);
    }
  }

  /** Makes a draft that has its content the version that `info` names. False where there is such a version already. */
  async publish(draft: string, info: ArtifactInfo): Promise<boolean> {
    const { artifactId, version, taskId, contextId } = info;
    const infoPath = join(draft, 'info.json');
    await writeFile(infoPath, JSON.stringify(info));
    await syncFile(infoPath);
    await syncFolder(draft);
    const name = fileNameOf(artifactId);
    if (taskId !== undefined) await mark(join(this.path, 'tasks', fileNameOf(taskId)), name);
    if (contextId !== undefined) await mark(join(this.path, 'contexts', fileNameOf(contextId)), name);
    if (version === 1) await mkdir(this.#artifact(artifactId), { recursive: true });
    try {
      await rename(draft, this.#version(artifactId, version));
    } catch (error) {
      if (isTaken(error)) return false;
      throw error;
    }
    await syncFolder(this.#artifact(artifactId));
    if (version === 1) await syncFolder(join(this.path, 'artifacts'));
    return true;
  }

  async removeVersion(artifactId: string, version: number): Promise<void> {
    await removeFolder(this.#version(artifactId, version), this.#newTrash());
  }

  async remove(artifactId: string): Promise<void> {
    const info = await this.info(artifactId);
    if (info === undefined) return;
    await this.#ready();
    await removeFolder(this.#artifact(artifactId), this.#newTrash());
    const name = fileNameOf(artifactId);
    const { taskId, contextId } = info;
    if (taskId !== undefined) await unmark(join(this.path, 'tasks', fileNameOf(taskId)), name);
    if (contextId !== undefined) await unmark(join(this.path, 'contexts', fileNameOf(contextId)), name);
  }

  /** The newest versions of all artifacts, or of those of a task or context, behind an id, in the order of the ids. */
  async *infos(after: string, { taskId, contextId }: Partial<ArtifactInfo>): AsyncGenerator<ArtifactInfo> {
    const names = await namesIn(this.#listOf(taskId, contextId));
    const first = fileNameOf(after);
    for (const name of names.filter((found) => found > first).sort()) {
      const info = await this.info(idOfFileName(name));
      if (info) yield info;
    }
  }

  #listOf(taskId: string | undefined, contextId: string | undefined): string {
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

  /** Makes the folders, and removes what processes that died have left. */
  async #prepare(): Promise<void> {
    const folders = ['artifacts', 'drafts', 'trash'].map((name) => join(this.path, name));
    for (const folder of folders) await mkdir(folder, { recursive: true });
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
  // Only the last one out finds the folder empty.
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

import { randomUUID } from 'node:crypto';
import {
  type AgentLoopError,
  type ArtifactInfo,
  type ArtifactQuery,
  type Clock,
  type StoreCheck,
  systemClock,
} from '../../core/contracts/index.ts';
import {
  aBoolean,
  aName,
  anObject,
  assertGiven,
  assertOptions,
  type OptionRules,
  wholeNumber,
} from '../../options/option-rules.ts';
import { damagedArtifact, noArtifact } from '../artifacts/check-artifact.ts';
import { fileNameOf, idOfFileName } from '../artifacts/folder-files.ts';
import {
  type ArtifactBackend,
  type FoundVersion,
  type NextVersion,
  VersionedArtifactStore,
  versionRules,
} from '../artifacts/versioned-artifact-store.ts';
import { InTurn } from '../in-turn.ts';
import { isMissingKey, S3Bucket, S3Draft, type S3Target, s3Error } from './s3-bucket.ts';

/** Options of `S3ArtifactStore`: bucket, client, and how much it holds. */
export interface S3ArtifactStoreOptions {
  /** The name of an existing bucket. */
  readonly bucket: string;
  /**
   * Options of the SDK's client, such as `region`, `endpoint` and `forcePathStyle`, or a client, which the caller closes. Default: the
   * environment and files that the SDK reads.
   */
  readonly s3?: S3Target | undefined;
  /** Prefix of all keys. Default `millrace/`. */
  readonly prefix?: string | undefined;
  /** Larger contents are uploaded in parts of this size, at most 10,000. Bytes; default 8 MiB, minimum 5 MiB. */
  readonly partBytes?: number | undefined;
  /**
   * Whether the server supports `If-None-Match` of a PUT, as Amazon's does. With `false`, if two processes change an artifact at the same time,
   * one change may be lost; within one process none is lost. Default true.
   */
  readonly conditionalWrites?: boolean | undefined;
  /** The number of versions of an artifact that are kept; older ones are deleted. Default 10, minimum 2. */
  readonly keepVersions?: number | undefined;
  /** Replaced in tests. Default: the system clock. */
  readonly clock?: Clock | undefined;
}

const smallestPart = 5 * 1024 * 1024;

const rules: OptionRules<S3ArtifactStoreOptions> = {
  bucket: { ...aName, cure: 'give the name of a bucket' },
  s3: { ...anObject, cure: 'give options of the S3 client, or a client' },
  prefix: {
    fits: (value) => typeof value === 'string' && /^[\w.:/-]{0,256}$/.test(value),
    must: 'be at most 256 of the characters A-Z a-z 0-9 _ . : / -',
  },
  partBytes: wholeNumber(smallestPart),
  conditionalWrites: aBoolean,
  ...versionRules,
  keepVersions: wholeNumber(2),
};

/**
 * Stores artifacts in a bucket of S3, or of a compatible server, for any number of processes.
 *
 * A version is published atomically: its content is uploaded first, then one small object that names the content. The server refuses to write
 * that object twice, so that of two processes that write the same version one gets the next. `read` verifies the hash, and continues after a
 * broken connection. Content of a writer that crashed before it published is deleted with its artifact; abandoned uploads are aborted after a
 * week, at the first write of a store.
 *
 * Loads `@aws-sdk/client-s3` at the first call. Errors besides the contract's: `INVALID_CONFIG` by the constructor; `MISSING_PACKAGE`;
 * `UNAVAILABLE`, retryable unless credentials, bucket or region are wrong; `FULL` by a quota.
 *
 * Memory: one part for each draft being written, one network chunk for each reader; whole contents only in `get`, `create`, `update`.
 */
export class S3ArtifactStore extends VersionedArtifactStore<S3Version, S3Draft> {
  readonly #bucket: S3Bucket;
  readonly #backend: S3ArtifactBackend;
  readonly #conditionalWrites: boolean;

  constructor(options: S3ArtifactStoreOptions) {
    assertOptions('S3ArtifactStore', options, rules);
    assertGiven('S3ArtifactStore', 'bucket', options.bucket, 'give the name of a bucket');
    const { s3 = {}, prefix = 'millrace/', partBytes = 8 * 1024 * 1024, conditionalWrites = true } = options;
    const clock: Clock = options.clock ?? systemClock;
    const bucket = new S3Bucket(options.bucket, s3);
    const backend = new S3ArtifactBackend(bucket, { prefix, partBytes, conditionalWrites, now: () => clock.now() });
    super(backend, options);
    this.#bucket = bucket;
    this.#backend = backend;
    this.#conditionalWrites = conditionalWrites;
  }

  /** Writes to the bucket, and tests whether it supports `conditionalWrites`. Errors: `UNAVAILABLE`, `FULL`. */
  async check(): Promise<StoreCheck> {
    if (!this.#conditionalWrites) {
      const warning =
        'conditionalWrites is false: if two processes change an artifact at the same time, one change may be lost.';
      return { ok: true, warnings: [warning] };
    }
    try {
      if (await this.#backend.writesOnce()) return { ok: true, warnings: [] };
    } catch (error) {
      throw this.#backend.errorOf(error);
    }
    const warning =
      'The server ignores If-None-Match; set conditionalWrites to false, and change an artifact from one process.';
    return { ok: false, warnings: [warning] };
  }

  /** Closes the connections, unless the caller passed a client. */
  async close(): Promise<void> {
    await this.#bucket.close();
  }
}

interface S3BackendSettings {
  readonly prefix: string;
  readonly partBytes: number;
  /** Whether the server refuses to write a key twice. */
  readonly conditionalWrites: boolean;
  /** Milliseconds since 1970. */
  now(): number;
}

/** A version, as its object stores it. */
interface S3Version extends FoundVersion {
  /** The key of its content. */
  readonly content: string;
  /** Identifies the write that created it. */
  readonly stamp: string;
}

/** The age from which an upload counts as abandoned. */
const staleMs = 7 * 24 * 60 * 60 * 1000;

/** How many artifacts are read concurrently. */
const concurrentReads = 8;

/**
 * The objects of an artifact store, below a prefix:
 *
 *     artifacts/<id>/<version>        the description of a version and the key of its content; written once
 *     contents/<id>/<uuid>            a content, written before the version that names it
 *     tasks/<task id>/<id>, contexts/<context id>/<id>   empty marks, by which `infos` finds artifacts
 *
 * Ids are encoded by `fileNameOf`.
 */
class S3ArtifactBackend implements ArtifactBackend<S3Version, S3Draft> {
  readonly #bucket: S3Bucket;
  readonly #settings: S3BackendSettings;
  readonly #keys: S3Keys;
  readonly #inTurn = new InTurn();
  #swept: Promise<void> | undefined;

  constructor(bucket: S3Bucket, settings: S3BackendSettings) {
    this.#bucket = bucket;
    this.#settings = settings;
    this.#keys = new S3Keys(settings.prefix);
  }

  async newDraft(artifactId: string): Promise<S3Draft> {
    this.#swept ??= this.#sweep();
    await this.#swept;
    const key = `${this.#keys.contents(artifactId)}${randomUUID()}`;
    return new S3Draft(this.#bucket, key, this.#settings.partBytes);
  }

  async find(artifactId: string, version?: number): Promise<S3Version | undefined> {
    if (version !== undefined) return this.#versionAt(artifactId, this.#keys.version(artifactId, version));
    const newest = (await this.#versionKeys(artifactId)).at(-1);
    if (newest === undefined) return undefined;
    const found = await this.#versionAt(artifactId, newest);
    if (found) return found;
    // The version was deleted meanwhile: a newer one exists, or none.
    return (await this.#versionKeys(artifactId)).at(-1) === newest ? undefined : this.find(artifactId);
  }

  async publish({ info, before, draft }: NextVersion<S3Version, S3Draft>): Promise<boolean> {
    const content = draft?.key ?? before?.content ?? '';
    const version: S3Version = { info, content, stamp: randomUUID() };
    if (info.version === 1) await this.#mark(info);
    if (!(await this.#write(version))) return false;
    // A delete may have removed the marks in between.
    if (info.version === 1) await this.#mark(info);
    else if (await this.#isAlone(info)) {
      await this.#bucket.remove(this.#keys.version(info.artifactId, info.version));
      return false;
    }
    draft?.published();
    return true;
  }

  async dropOldVersions(artifactId: string, keep: number): Promise<void> {
    const keys = await this.#versionKeys(artifactId);
    const dropped = keys.slice(0, -keep);
    for (const [index, key] of dropped.entries()) {
      const [found, next] = await Promise.all(
        [key, keys[index + 1] ?? ''].map((one) => this.#versionAt(artifactId, one)),
      );
      await this.#bucket.remove(key);
      // Only consecutive versions share a content.
      if (found && next && found.content !== next.content) await this.#bucket.remove(found.content);
    }
  }

  async *read({ info, content }: S3Version): AsyncGenerator<Uint8Array> {
    try {
      yield* this.#bucket.read(content, info.size);
    } catch (error) {
      throw isMissingKey(error) ? await this.#missingContent(info) : error;
    }
  }

  async *infos(query: ArtifactQuery & { readonly after: string }): AsyncGenerator<ArtifactInfo> {
    let batch: Promise<S3Version | undefined>[] = [];
    for await (const name of this.#names(query)) {
      batch.push(this.find(idOfFileName(name)));
      if (batch.length < concurrentReads) continue;
      for (const found of await Promise.all(batch)) if (found) yield found.info;
      batch = [];
    }
    for (const found of await Promise.all(batch)) if (found) yield found.info;
  }

  /** Removes versions first, from the oldest, then contents and marks. */
  async remove(artifactId: string): Promise<void> {
    const newest = await this.find(artifactId);
    if (newest === undefined) return;
    // Contents uploaded later belong to a new artifact of this id.
    const contents = await this.#allKeys(this.#keys.contents(artifactId));
    for (let keys = await this.#versionKeys(artifactId); keys.length > 0; keys = await this.#versionKeys(artifactId)) {
      for (const key of keys) await this.#bucket.remove(key);
    }
    await Promise.all([...contents, ...this.#keys.marks(newest.info)].map((key) => this.#bucket.remove(key)));
    const recreated = await this.find(artifactId);
    if (recreated) await this.#mark(recreated.info);
  }

  errorOf(thrown: unknown): AgentLoopError {
    return s3Error(thrown, this.#bucket.name);
  }

  /** Tests whether the server refuses to write a key twice. */
  async writesOnce(): Promise<boolean> {
    const key = `${this.#settings.prefix}check-${randomUUID()}`;
    try {
      return (await this.#bucket.putNew(key, 'first')) && !(await this.#bucket.putNew(key, 'second'));
    } finally {
      await this.#bucket.remove(key);
    }
  }

  /** Returns false if another write created the version. */
  async #write(version: S3Version): Promise<boolean> {
    const { artifactId, version: number } = version.info;
    const key = this.#keys.version(artifactId, number);
    const body = JSON.stringify(version);
    if (this.#settings.conditionalWrites) {
      if (await this.#bucket.putNew(key, body)) return true;
      // The SDK may have repeated a request whose response was lost.
      return (await this.#versionAt(artifactId, key))?.stamp === version.stamp;
    }
    return this.#inTurn.run(key, async () => {
      if ((await this.#bucket.sizeOf(key)) !== undefined) return false;
      await this.#bucket.put(key, body);
      return true;
    });
  }

  /** Whether a new version is the only one: the artifact was deleted meanwhile, since at least 2 versions are kept. */
  async #isAlone({ artifactId }: ArtifactInfo): Promise<boolean> {
    return (await this.#versionKeys(artifactId)).length === 1;
  }

  async #versionAt(artifactId: string, key: string): Promise<S3Version | undefined> {
    const text = await this.#bucket.get(key);
    return text === undefined ? undefined : versionIn(artifactId, text);
  }

  #versionKeys(artifactId: string): Promise<readonly string[]> {
    return this.#allKeys(this.#keys.versions(artifactId));
  }

  async #allKeys(prefix: string): Promise<readonly string[]> {
    const keys: string[] = [];
    for await (const key of this.#bucket.keys(prefix)) keys.push(key);
    return keys;
  }

  /** The encoded ids of the artifacts that match a query, in order. */
  async *#names({ after, ...query }: ArtifactQuery & { readonly after: string }): AsyncGenerator<string> {
    const prefix = this.#keys.list(query);
    if (prefix === undefined) {
      yield* this.#bucket.folders(this.#keys.artifacts, after === '' ? undefined : this.#keys.endOf(after));
      return;
    }
    const first = after === '' ? undefined : `${prefix}${fileNameOf(after)}`;
    for await (const key of this.#bucket.keys(prefix, first)) yield key.slice(prefix.length);
  }

  async #mark(info: ArtifactInfo): Promise<void> {
    await Promise.all(this.#keys.marks(info).map((key) => this.#bucket.put(key, '')));
  }

  /** The error for a missing content: the version was deleted, or is damaged. */
  async #missingContent({ artifactId, version }: ArtifactInfo): Promise<AgentLoopError> {
    return (await this.find(artifactId, version))
      ? damagedArtifact(artifactId, `the content of version ${version} is missing`)
      : noArtifact(artifactId, version);
  }

  /** Aborts abandoned multipart uploads. */
  async #sweep(): Promise<void> {
    try {
      for (const upload of await this.#bucket.uploads(this.#keys.allContents)) {
        if (upload.startedAt < this.#settings.now() - staleMs) await this.#bucket.abortUpload(upload);
      }
    } catch {
      // Without the permission they remain; the store works.
    }
  }
}

function versionIn(artifactId: string, text: string): S3Version {
  try {
    const version: S3Version = JSON.parse(text);
    if (version.info.artifactId === artifactId && typeof version.content === 'string') return version;
  } catch {
    throw damagedArtifact(artifactId, 'the object of a version is damaged');
  }
  throw damagedArtifact(artifactId, 'the object of a version belongs to another artifact');
}

/** Version numbers are padded to this length, so that keys sort by version. */
const versionDigits = 12;

/** The keys of an artifact store, below a prefix. Those that end with `/` are prefixes. */
class S3Keys {
  readonly artifacts: string;
  readonly allContents: string;
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = prefix;
    this.artifacts = `${prefix}artifacts/`;
    this.allContents = `${prefix}contents/`;
  }

  versions(artifactId: string): string {
    return `${this.artifacts}${fileNameOf(artifactId)}/`;
  }

  version(artifactId: string, version: number): string {
    return `${this.versions(artifactId)}${String(version).padStart(versionDigits, '0')}`;
  }

  contents(artifactId: string): string {
    return `${this.allContents}${fileNameOf(artifactId)}/`;
  }

  /** Sorts after all versions of an artifact, and before those of the next one. */
  endOf(artifactId: string): string {
    return `${this.versions(artifactId)}~`;
  }

  /** The prefix of the marks of a task or a context; undefined if a query names neither. */
  list({ taskId, contextId }: ArtifactQuery): string | undefined {
    if (taskId !== undefined) return `${this.#prefix}tasks/${fileNameOf(taskId)}/`;
    if (contextId !== undefined) return `${this.#prefix}contexts/${fileNameOf(contextId)}/`;
    return undefined;
  }

  marks({ artifactId, taskId, contextId }: ArtifactInfo): readonly string[] {
    const of = [taskId !== undefined && { taskId }, contextId !== undefined && { contextId }];
    return of.flatMap((query) => (query === false ? [] : [`${this.list(query)}${fileNameOf(artifactId)}`]));
  }
}

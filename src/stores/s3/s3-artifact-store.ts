import { AgentLoopError, type Clock, type StoreCheck, shownValue, systemClock } from '../../core/contracts/index.ts';
import { ShelvedArtifactStore } from '../artifacts/shelved-artifact-store.ts';
import { assertKnownOptions, type OptionNames } from '../known-options.ts';
import { S3ArtifactShelf, type S3Version } from './s3-artifact-shelf.ts';
import { S3Bucket, type S3Target } from './s3-bucket.ts';
import type { S3Draft } from './s3-draft.ts';

export interface S3ArtifactStoreOptions {
  readonly bucket: string;
  /**
   * Options of the SDK's client, such as `region`, `endpoint` and `forcePathStyle`, or a client, which stays the caller's. Default: what
   * the SDK finds in environment and files.
   */
  readonly s3?: S3Target | undefined;
  /** What all keys begin with. Default `millrace/`. */
  readonly prefix?: string | undefined;
  /** Contents beyond as many bytes are sent in parts of that size, of which there may be 10,000. Default 8 MiB; at least 5 MiB. */
  readonly partBytes?: number | undefined;
  /**
   * Whether the server knows `If-None-Match` of a PUT, as Amazon's does. With `false` two processes that change the same artifact at
   * once may lose one of the changes; within one process none is lost. Default true.
   */
  readonly conditionalWrites?: boolean | undefined;
  /** How many versions of an artifact are kept; the oldest go first. At least 2. Default 10. */
  readonly keepVersions?: number | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

const optionNames: OptionNames<S3ArtifactStoreOptions> = {
  bucket: true,
  s3: true,
  prefix: true,
  partBytes: true,
  conditionalWrites: true,
  keepVersions: true,
  clock: true,
};
const smallestPart = 5 * 1024 * 1024;

/**
 * Keeps artifacts in a bucket of S3, or of a server that speaks its protocol, shared by any number of processes and machines.
 *
 * A content is stored first, then one small object names it as a version: whole or not at all, and of two processes that write the same
 * version one gets the next, because the server refuses to write the object twice. `read` compares content and hash, and resumes where
 * a connection broke. A content whose writer died in between goes with its artifact; uploads that are left half done are ended after a
 * week, when a store first writes.
 *
 * Loads `@aws-sdk/client-s3` at the first call. Errors besides the contract's: `INVALID_CONFIG` here, `MISSING_PACKAGE`;
 * `UNAVAILABLE` (retryable unless credentials, bucket or region are at fault) and `FULL` by a quota.
 *
 * Memory: a part a draft that is being written, chunks as the network gives them a reader; contents only in `get`, `create`, `update`.
 */
export class S3ArtifactStore extends ShelvedArtifactStore<S3Version, S3Draft> {
  readonly #bucket: S3Bucket;
  readonly #shelf: S3ArtifactShelf;
  readonly #conditionalWrites: boolean;

  constructor(options: S3ArtifactStoreOptions) {
    assertOptions(options);
    const { s3 = {}, prefix = 'millrace/', partBytes = 8 * 1024 * 1024, conditionalWrites = true } = options;
    const clock: Clock = options.clock ?? systemClock;
    const bucket = new S3Bucket(options.bucket, s3);
    const shelf = new S3ArtifactShelf(bucket, { prefix, partBytes, conditionalWrites, now: () => clock.now() });
    super(shelf, options);
    this.#bucket = bucket;
    this.#shelf = shelf;
    this.#conditionalWrites = conditionalWrites;
  }

  /** Writes to the bucket, and looks whether it keeps the promise of `conditionalWrites`. Errors: `UNAVAILABLE`, `FULL`. */
  async check(): Promise<StoreCheck> {
    if (!this.#conditionalWrites) {
      const warning =
        'conditionalWrites is false: of two processes that change an artifact at once, one may lose its change.';
      return { ok: true, warnings: [warning] };
    }
    try {
      if (await this.#shelf.writesOnce()) return { ok: true, warnings: [] };
    } catch (error) {
      throw this.#shelf.errorOf(error);
    }
    const warning =
      'The server ignores If-None-Match; set conditionalWrites to false, and change an artifact from one process.';
    return { ok: false, warnings: [warning] };
  }

  /** Ends the connections that this store made. */
  async close(): Promise<void> {
    await this.#bucket.close();
  }
}

function assertOptions(options: S3ArtifactStoreOptions): void {
  assertKnownOptions('S3ArtifactStore', options, optionNames);
  const { bucket, s3, prefix, partBytes, conditionalWrites, keepVersions } = options;
  if (typeof bucket !== 'string' || bucket === '') throw invalid('bucket', bucket, 'give the name of a bucket');
  if (s3 !== undefined && (typeof s3 !== 'object' || s3 === null)) {
    throw invalid('s3', s3, 'give options of the S3 client, or a client');
  }
  if (prefix !== undefined && !(typeof prefix === 'string' && /^[\w.:/-]{0,256}$/.test(prefix))) {
    throw invalid('prefix', prefix, 'take at most 256 of the characters A-Z a-z 0-9 _ . : / -');
  }
  if (keepVersions !== undefined && !(Number.isSafeInteger(keepVersions) && keepVersions >= 2)) {
    throw invalid('keepVersions', keepVersions, 'give a whole number from 2');
  }
  if (partBytes !== undefined && !(Number.isSafeInteger(partBytes) && partBytes >= smallestPart)) {
    throw invalid('partBytes', partBytes, `give a whole number of bytes from ${smallestPart}`);
  }
  if (conditionalWrites !== undefined && typeof conditionalWrites !== 'boolean') {
    throw invalid('conditionalWrites', conditionalWrites, 'give true or false');
  }
}

function invalid(name: string, value: unknown, cure: string): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', `${name} is ${shownValue(value)}; ${cure}.`);
}

import type { MaybePromise } from './values.ts';

/** One version of an artifact, without its content. */
export interface ArtifactInfo {
  readonly artifactId: string;
  /** Counts from 1; every change makes a new one. */
  readonly version: number;
  readonly name: string;
  /** Such as `text/markdown`. */
  readonly mediaType: string;
  /** Of the content, in bytes. */
  readonly size: number;
  /** Of the content, in hex. */
  readonly sha256: string;
  /** The turn that made the artifact. */
  readonly taskId?: string;
  readonly contextId?: string;
  /** Data of the application, as JSON. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** When the artifact was made. ISO 8601. */
  readonly createdAt: string;
  /** When this version was made. ISO 8601. */
  readonly updatedAt: string;
}

/** An artifact with its content, whole in memory. */
export interface Artifact extends ArtifactInfo {
  readonly content: Uint8Array;
}

/** A string is encoded as UTF-8. */
export type ArtifactContent = string | Uint8Array;

export interface NewArtifact {
  readonly name: string;
  /** Matches `taskIdPattern`. Default: one of its own. */
  readonly artifactId?: string;
  /** Default: `text/plain` if the content is a string, else `application/octet-stream`. */
  readonly mediaType?: string;
  readonly taskId?: string;
  readonly contextId?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Default: empty, to be written by `append`. */
  readonly content?: ArtifactContent;
}

/** A change of an artifact; members that are left out keep their value. */
export interface ArtifactChange {
  readonly name?: string;
  readonly mediaType?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly content?: ArtifactContent;
}

export interface UpdateOptions {
  /** Change it only where this is still its newest version. Default: in any case. */
  readonly version?: number | undefined;
}

export interface VersionOptions {
  /** Default: the newest. */
  readonly version?: number | undefined;
}

export interface ChunkOptions {
  /** How many bytes the draft has to have before this chunk; 0 starts over. Default: as many as it has. */
  readonly offset?: number | undefined;
  /** True for the chunk that completes the content. Default false. */
  readonly last?: boolean | undefined;
}

export interface AppendedChunk {
  /** How many bytes the draft has now. */
  readonly size: number;
  /** With the last chunk: the new version. */
  readonly artifact?: ArtifactInfo;
}

export interface ArtifactQuery {
  readonly taskId?: string;
  readonly contextId?: string;
  /** How many at most. Default 50. */
  readonly limit?: number;
  /** Only artifacts whose id sorts after this one: the `next` of the previous page. */
  readonly after?: string;
}

export interface ArtifactPage {
  /** The newest version of each, in the order of their ids, by character code. */
  readonly artifacts: readonly ArtifactInfo[];
  /** The `after` of the next page; absent on the last one. */
  readonly next?: string;
}

/**
 * Keeps what turns produce: contents of any size, in versions.
 *
 * A version is written as a whole or not at all, and never changes. Content that is too large for memory is written by `append`, chunk by
 * chunk, into a draft that is invisible until its last chunk, and read by `read`.
 *
 * Errors are `AgentLoopError`s: `INVALID_INPUT` for invalid arguments, `NOT_FOUND`, `CONFLICT`, `FULL` where there is no room,
 * `UNAVAILABLE`, and `POISON` for a content that is not what was written. A method that can answer at once may return the value
 * instead of a promise; it then throws instead of rejecting. Infos and contents are taken and given by copy.
 */
export interface ArtifactStore {
  /** Makes version 1. Errors: `CONFLICT` where there is an artifact of that id. */
  create(artifact: NewArtifact): MaybePromise<ArtifactInfo>;

  /** Makes a new version. Errors: `NOT_FOUND`; `CONFLICT` where `version` is given and no longer the newest. */
  update(artifactId: string, change: ArtifactChange, options?: UpdateOptions): MaybePromise<ArtifactInfo>;

  /**
   * Adds a chunk to the draft of the next version's content, which begins empty; the last chunk makes the version. Calls apply in
   * their order. A draft belongs to this instance and is lost with it; other instances may write drafts of their own, and change
   * the artifact meanwhile: all but the content stays as the newest version has it. After `FULL` and `UNAVAILABLE` the draft is gone.
   * Errors: `NOT_FOUND`; `CONFLICT`, which leaves the draft as it is, where `offset` is neither 0 nor the size of the draft.
   */
  append(artifactId: string, chunk: ArtifactContent, options?: ChunkOptions): MaybePromise<AppendedChunk>;

  /** A version without its content; null if there is no such artifact or version. */
  describe(artifactId: string, options?: VersionOptions): MaybePromise<ArtifactInfo | null>;

  /** The artifact with its content, whole in memory; null where there is no such artifact or version. */
  get(artifactId: string, options?: VersionOptions): MaybePromise<Artifact | null>;

  /**
   * The content of one version, in chunks, also where a newer one comes meanwhile. Leaving the iteration closes what it holds.
   * Errors: `NOT_FOUND` at the first chunk, `POISON` in the end.
   */
  read(artifactId: string, options?: VersionOptions): AsyncIterable<Uint8Array>;

  /** A page of the artifacts, of one task or context if the query says so. One that stands all the while is on exactly one page. */
  list(query?: ArtifactQuery): MaybePromise<ArtifactPage>;

  /** Deletes an artifact with all its versions. Does nothing if there is none. */
  delete(artifactId: string): MaybePromise<void>;
}

/** A piece of an artifact that a tool makes. Given to `context.progress`, it is shown as an `artifact-update` event. */
export interface ArtifactChunk {
  readonly type: 'artifact-chunk';
  readonly artifactId: string;
  /** Default none. */
  readonly name?: string;
  readonly text: string;
  /** False: this replaces whatever the artifact held. */
  readonly append: boolean;
  readonly lastChunk: boolean;
}

export function isArtifactChunk(update: unknown): update is ArtifactChunk {
  if (typeof update !== 'object' || update === null || !('type' in update) || update.type !== 'artifact-chunk')
    return false;
  if (!('artifactId' in update && 'text' in update && 'append' in update && 'lastChunk' in update)) return false;
  const { artifactId, text, append, lastChunk } = update;
  const texts = typeof artifactId === 'string' && typeof text === 'string';
  return texts && typeof append === 'boolean' && typeof lastChunk === 'boolean';
}

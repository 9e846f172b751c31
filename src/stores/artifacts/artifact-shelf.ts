import type { AgentLoopError, ArtifactInfo, ArtifactQuery } from '../../core/contracts/index.ts';

/** What is known of a content once it is written whole. */
export type WrittenContent = Pick<ArtifactInfo, 'size' | 'sha256'>;

/** The content of a version that is being written. Nobody sees it before it is published. */
export interface ArtifactDraft {
  /** In bytes, so far. */
  readonly size: number;
  add(bytes: Uint8Array): Promise<void>;
  /** Has the whole content kept, and says what it is. No more can be added then. */
  complete(): Promise<WrittenContent>;
  /** Forgets the content, unless it was published. */
  discard(): Promise<void>;
}

/** A version as a shelf found it, with what the shelf needs to know of it besides. */
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

/** Where versions stand: what `ShelvedArtifactStore` needs of a folder, a server or a bucket. */
export interface ArtifactShelf<Found extends FoundVersion, Draft extends ArtifactDraft> {
  newDraft(artifactId: string): Promise<Draft>;
  /** A version, by default the newest; undefined where it is not there. */
  find(artifactId: string, version?: number): Promise<Found | undefined>;
  /** Puts a version up, whole or not at all. False where the artifact is not as it was found any more: look again. */
  publish(next: NextVersion<Found, Draft>): Promise<boolean>;
  /** Drops all versions but the newest ones. What cannot be dropped now is dropped with the next version. */
  dropOldVersions(artifactId: string, keep: number): Promise<void>;
  /** The content of a version in chunks. Errors: `NOT_FOUND` where it was dropped, `POISON` where it is not what was written. */
  read(found: Found): AsyncIterable<Uint8Array>;
  /** The newest versions after an id, in the order of the ids; of the task, else of the context that the query names. */
  infos(query: ArtifactQuery & { readonly after: string }): AsyncIterable<ArtifactInfo>;
  remove(artifactId: string): Promise<void>;
  /** The error of the contract for whatever the other methods threw. */
  errorOf(thrown: unknown): AgentLoopError;
}

import type { Message } from './messages.ts';
import type { MaybePromise } from './values.ts';

/** Data of the application about a context, as JSON; the engine does not interpret it. */
export type ContextMetadata = Readonly<Record<string, unknown>>;

/** A message as a store of messages keeps it, for those who show conversations; models never get the `id`. */
export interface StoredMessage {
  /** Unique in its context, and the same for as long as the message is there. */
  readonly id: string;
  /** The `createdAt` of the message, else the time of its record. ISO 8601. For messages stored by 0.1: when their context was created. */
  readonly createdAt: string;
  /** The turn that added it. Absent for one that 0.1 stored. */
  readonly taskId?: string;
  /** As it was appended. It may have an `id` of its own: that of its sender. */
  readonly message: Message;
}

/** Which messages of a context `list` gives, and in which order. */
export interface MessageQuery {
  /** How many at most, from 1. Default 50. */
  readonly limit?: number | undefined;
  /** Default `'oldest-first'`: the order of the conversation. */
  readonly order?: 'oldest-first' | 'newest-first' | undefined;
  /** Only messages that come after this one in that order: the `next` of the page before, or the `id` of any message of the context. */
  readonly after?: string | undefined;
}

/** One page of the messages of a context. */
export interface MessagePage {
  /** In the order of the query. */
  readonly messages: readonly StoredMessage[];
  /** The `after` of the next page; absent on the last one. */
  readonly next?: string;
}

/** Which messages of a context `load` gives. */
export interface LoadOptions {
  /** How many messages at most, the last ones of what is asked for. Default: all; 0 gives none, but all the rest. */
  readonly limit?: number | undefined;
  /** Only messages in front of this position, counted from 0; the `from` of a page is the `before` of the page in front of it. */
  readonly before?: number | undefined;
}

/** A context as it stood at one moment. One that nobody wrote to has no messages, no metadata and version 0. */
export interface Conversation {
  readonly contextId: string;
  /** In the order in which they were appended, turn by turn. */
  readonly messages: readonly Message[];
  /** How many messages of the context come before `messages`. */
  readonly from: number;
  /** How many messages the context has. */
  readonly total: number;
  readonly metadata: ContextMetadata;
  /** Grows with each change of the metadata, and only with it; 0 before the first. */
  readonly version: number;
  /** The agent that answers next, as `append` or `setAgent` wrote it last; absent where neither did. */
  readonly agentId?: string;
  /** Task ids of turns that were begun and whose messages are not here yet, the one begun first first. */
  readonly openTurns: readonly string[];
}

/** Options of a change to the metadata of a context. */
export interface MetadataOptions {
  /** Change it only where it still has this version. Default: in any case. */
  readonly version?: number | undefined;
}

/** Options of an append at the end of a turn. */
export interface TurnAppendOptions {
  /** The agent that answers next. Default: it stays. */
  readonly agentId?: string | undefined;
  /** When each of the messages came to be, in their order, for those that bring no `createdAt`. ISO 8601. Default: now. */
  readonly createdAt?: readonly string[] | undefined;
}

/** Which contexts `contexts` gives. */
export interface ContextQuery {
  /** How many at most. Default 50. */
  readonly limit?: number;
  /** Only contexts whose id sorts after this one: the `next` of the previous page. */
  readonly after?: string;
}

/** What is known of a context without reading its messages. */
export interface ContextSummary {
  readonly contextId: string;
  /** How many messages it has. */
  readonly total: number;
  /** How many of its turns have not ended. */
  readonly openTurns: number;
  /** ISO 8601. */
  readonly createdAt: string;
  /** When it was last written to. ISO 8601. */
  readonly updatedAt: string;
  /** The bytes of its messages as JSON. Absent where the store does not count them, and for contexts of version 0.1. */
  readonly bytes?: number;
}

/** One page of contexts. */
export interface ContextPage {
  /** In the order of their ids, by character code. */
  readonly contexts: readonly ContextSummary[];
  /** The `after` of the next page; absent on the last one. */
  readonly next?: string;
}

/**
 * Stores the conversations of agents between turns.
 *
 * The messages of a turn are appended once and as a whole, by the process that ran the turn, or by another that found it ended. A turn is
 * registered when it starts and settled when its messages are appended, so that the next turn of the context finds turns that a dead process
 * did not save, and saves them first. Every change is atomic, and durable once its promise resolves.
 *
 * Context ids and task ids match `taskIdPattern`. Errors are `AgentLoopError`s: `INVALID_INPUT` for what no store takes,
 * `UNAVAILABLE`, `FULL`, `POISON` and `SCHEMA` as in `TaskStateStore`. A method that can answer at once may return the value instead
 * of a promise; it then throws instead of rejecting. Messages and metadata are given and taken by reference and never changed by
 * either side.
 */
export interface MessageStore {
  /**
   * Registers a turn that starts. Idempotent: a turn that is registered keeps its position. Returns `saved` and changes nothing if the messages
   * of this turn are stored already.
   */
  begin(contextId: string, taskId: string): MaybePromise<'open' | 'saved'>;

  /**
   * Appends the messages of a turn, all or none, and settles the turn, which need not be registered. If the messages of this turn are stored
   * already, nothing changes and `appended` is false. An empty array settles a turn without messages. `agentId` is written in the same change,
   * unless `appended` is false.
   */
  append(
    contextId: string,
    taskId: string,
    messages: readonly Message[],
    options?: TurnAppendOptions,
  ): MaybePromise<{ readonly appended: boolean }>;

  /** Sets the agent that answers next. */
  setAgent(contextId: string, agentId: string): MaybePromise<void>;

  /** The conversation, or a range of it, in the order of the appends. */
  load(contextId: string, options?: LoadOptions): MaybePromise<Conversation>;

  /**
   * A page of the messages, each with its id. One that stands all the while is on exactly one page; those that are appended meanwhile come
   * last in `oldest-first`, and not at all in `newest-first`. Errors: `INVALID_INPUT` where `after` is no message of the context.
   */
  list(contextId: string, query?: MessageQuery): MaybePromise<MessagePage>;

  /** Replaces the metadata and returns its new version. Errors: `CONFLICT` if `version` is given and is not the current one. */
  setMetadata(contextId: string, metadata: ContextMetadata, options?: MetadataOptions): MaybePromise<number>;

  /** A page of the contexts. One that stands all the while is on exactly one page. */
  contexts(query?: ContextQuery): MaybePromise<ContextPage>;

  /** Deletes a context with all its data. Does nothing if there is none. A later write creates it again. */
  delete(contextId: string): MaybePromise<void>;
}

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

/** An artifact to be created: its name, and what is known of it besides its content. */
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
  /** Default: as it was. */
  readonly mediaType?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly content?: ArtifactContent;
}

/** Options of a change to an artifact. */
export interface UpdateOptions {
  /** Change it only where this is still its newest version. Default: in any case. */
  readonly version?: number | undefined;
}

/** Which version of an artifact is read. */
export interface VersionOptions {
  /** Default: the newest. */
  readonly version?: number | undefined;
}

/** Where a chunk belongs in the content of an artifact, and whether it is the last one. */
export interface ChunkOptions {
  /** How many bytes the draft has to have before this chunk; 0 starts over. Default: as many as it has. */
  readonly offset?: number | undefined;
  /** True for the chunk that completes the content. Default false. */
  readonly last?: boolean | undefined;
}

/** The draft of an artifact after a chunk. */
export interface AppendedChunk {
  /** How many bytes the draft has now. */
  readonly size: number;
  /** With the last chunk: the new version. */
  readonly artifact?: ArtifactInfo;
}

/** Which artifacts `list` gives: those of a task, of a context, or all. */
export interface ArtifactQuery {
  readonly taskId?: string;
  readonly contextId?: string;
  /** How many at most. Default 50. */
  readonly limit?: number;
  /** Only artifacts whose id sorts after this one: the `next` of the previous page. */
  readonly after?: string;
}

/** One page of artifacts. */
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
  /** Whether the content is complete with it. */
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

import type { Message } from './messages.ts';
import type { MaybePromise } from './values.ts';

/** Data of the application about a context, as JSON; the engine does not interpret it. */
export type ContextMetadata = Readonly<Record<string, unknown>>;

/** A stored message, for pages that show conversations; models never receive the `id`. */
export interface StoredMessage {
  /** Unique in its context, and stable while the message exists. */
  readonly id: string;
  /** The `createdAt` of the message, else the time of its record. ISO 8601. For messages stored by 0.1: when their context was created. */
  readonly createdAt: string;
  /** The turn that added it. Absent for a message stored by 0.1. */
  readonly taskId?: string;
  /** As appended. It may have its own `id`, set by its sender. */
  readonly message: Message;
}

/** Which messages of a context `list` returns, and in which order. */
export interface MessageQuery {
  /** How many at most, from 1. Default 50. */
  readonly limit?: number | undefined;
  /** Default `'oldest-first'`: the order of the conversation. */
  readonly order?: 'oldest-first' | 'newest-first' | undefined;
  /** Only messages after this one in that order: the `next` of the previous page, or the `id` of any message of the context. */
  readonly after?: string | undefined;
}

/** One page of the messages of a context. */
export interface MessagePage {
  /** In the order of the query. */
  readonly messages: readonly StoredMessage[];
  /** The `after` of the next page; absent on the last one. */
  readonly next?: string;
}

/** A list of messages of which some, or all, are in a context. */
export interface MessageView {
  readonly contextId: string;
  /** The `id` of the last message that the context had. If the context does not have it any more, the context was deleted. */
  readonly last: string;
  /** In order: a message that is not in the context, or the position of the first of successive ones, and how many they are. */
  readonly parts: readonly (Message | readonly [from: number, count: number])[];
}

/** Which messages of a context `load` returns. */
export interface LoadOptions {
  /** The maximum number of messages: the last ones of the range. Default: all; 0 returns no messages, but all other members. */
  readonly limit?: number | undefined;
  /** Only messages before this position, counted from 0; the `from` of a page is the `before` of the preceding page. */
  readonly before?: number | undefined;
}

/** A snapshot of a context. A context that was never written has no messages, no metadata and version 0. */
export interface Conversation {
  readonly contextId: string;
  /** In the order in which they were appended, turn by turn. */
  readonly messages: readonly Message[];
  /** The number of messages before `messages` in the context. */
  readonly from: number;
  /** The number of messages in the context. */
  readonly total: number;
  readonly metadata: ContextMetadata;
  /** Grows with each change of the metadata only; 0 before the first. */
  readonly version: number;
  /** The agent that answers next, as last set by `append` or `setAgent`; absent if never set. */
  readonly agentId?: string;
  /** Task ids of turns that were registered and whose messages are not stored yet, the oldest first. */
  readonly openTurns: readonly string[];
}

/** Options of a change to the metadata of a context. */
export interface MetadataOptions {
  /** Changes the metadata only if it still has this version. Default: always. */
  readonly version?: number | undefined;
  /** Changes the metadata only if the context has at least so many messages: one that was deleted meanwhile has fewer. Default 0. */
  readonly minTotal?: number | undefined;
}

/** Options of an append at the end of a turn. */
export interface TurnAppendOptions {
  /** The agent that answers next. Default: unchanged. */
  readonly agentId?: string | undefined;
  /** The creation time of each message, in order, for messages without their own `createdAt`. ISO 8601. Default: now. */
  readonly createdAt?: readonly string[] | undefined;
  /**
   * Appends only if the turn is registered: nothing is appended, and `appended` is false, if its context was deleted since `begin`. Agents with a
   * journal set it, so that an erased turn writes nothing back into its context. Default false.
   */
  readonly registered?: boolean | undefined;
}

/** Which contexts `contexts` returns. */
export interface ContextQuery {
  /** The maximum number. Default 50. */
  readonly limit?: number;
  /** Only contexts whose id sorts after this one: the `next` of the previous page. */
  readonly after?: string;
}

/** The head of a context, without its messages. */
export interface ContextSummary {
  readonly contextId: string;
  /** The number of its messages. */
  readonly total: number;
  /** The number of its turns that have not ended. */
  readonly openTurns: number;
  /** ISO 8601. */
  readonly createdAt: string;
  /** When it was last written to. ISO 8601. */
  readonly updatedAt: string;
  /** The bytes of its messages as JSON. Absent if the store does not count them, and for contexts of version 0.1. */
  readonly bytes?: number;
}

/** One page of contexts. */
export interface ContextPage {
  /** In the order of their ids, by character code. */
  readonly contexts: readonly ContextSummary[];
  /** The `after` of the next page; absent on the last one. */
  readonly next?: string;
}

/** The maximum size of the messages of one turn in the message stores of this package, in characters of their JSON. */
export const maxTurnLength = 32 * 1024 * 1024;

/** The maximum length of an agent's id. Characters. */
export const maxAgentIdLength = 256;

/**
 * Stores the conversations of agents between turns.
 *
 * The messages of a turn are appended once and atomically, by the process that ran the turn, or by another process that found it ended. A turn is
 * registered when it starts and settled when its messages are appended, so the next turn of the context finds turns that a crashed process
 * did not save, and saves them first. Every change is atomic, and durable once its promise resolves.
 *
 * Context ids and task ids match `taskIdPattern`. Errors are `AgentLoopError`s: `INVALID_INPUT` for arguments that every store refuses,
 * `UNAVAILABLE`, `FULL`, `POISON` and `SCHEMA` as in `TaskStateStore`. A method that can answer at once may return the value instead
 * of a promise; it then throws instead of rejecting. Messages and metadata are passed by reference in both directions, and neither
 * side changes them.
 *
 * An agent keeps the contexts that it read last, and reads on after the last message that it knows: a message that was appended stays as it is, and
 * one that is removed lowers `total`.
 */
export interface MessageStore {
  /**
   * Registers a starting turn. Idempotent: a registered turn keeps its position. Returns `saved` and changes nothing if the messages
   * of this turn are stored already.
   */
  begin(contextId: string, taskId: string): MaybePromise<'open' | 'saved'>;

  /**
   * Removes the registration of a turn that never ran, so that its id can be used again. Does nothing if it is not registered, or stored
   * already. A context that has nothing else then is deleted. Without this method such a turn is settled without messages, and its id is used up.
   */
  withdraw?(contextId: string, taskId: string): MaybePromise<void>;

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
   * A page of the messages, each with its id. A message that exists throughout the paging is on exactly one page; messages appended meanwhile come
   * last in `oldest-first`, and not at all in `newest-first`. Errors: `INVALID_INPUT` if `after` is not a message of the context.
   */
  list(contextId: string, query?: MessageQuery): MaybePromise<MessagePage>;

  /** Replaces the metadata and returns its new version. Errors: `CONFLICT` if `version` is given and is not the current one, or the context has fewer messages than `minTotal`. */
  setMetadata(contextId: string, metadata: ContextMetadata, options?: MetadataOptions): MaybePromise<number>;

  /** A page of the contexts. A context that exists throughout the paging is on exactly one page. */
  contexts(query?: ContextQuery): MaybePromise<ContextPage>;

  /** Deletes a context with all its data. Does nothing if there is none. A later write creates it again. */
  delete(contextId: string): MaybePromise<void>;
}

/** One version of an artifact, without its content. */
export interface ArtifactInfo {
  readonly artifactId: string;
  /** Counts from 1; every change creates a new one. */
  readonly version: number;
  readonly name: string;
  /** Such as `text/markdown`. */
  readonly mediaType: string;
  /** Of the content, in bytes. */
  readonly size: number;
  /** Of the content, in hex. */
  readonly sha256: string;
  /** The turn that created the artifact. */
  readonly taskId?: string;
  readonly contextId?: string;
  /** Data of the application, as JSON. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** When the artifact was created. ISO 8601. */
  readonly createdAt: string;
  /** When this version was created. ISO 8601. */
  readonly updatedAt: string;
}

/** An artifact with its content, whole in memory. */
export interface Artifact extends ArtifactInfo {
  readonly content: Uint8Array;
}

/** A string is encoded as UTF-8. */
export type ArtifactContent = string | Uint8Array;

/** An artifact to create: its name, and optionally its attributes and content. */
export interface NewArtifact {
  readonly name: string;
  /** Matches `taskIdPattern`. Default: a generated one. */
  readonly artifactId?: string;
  /** Default: `text/plain` if the content is a string, else `application/octet-stream`. */
  readonly mediaType?: string;
  readonly taskId?: string;
  readonly contextId?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Default: empty, to be written by `append`. */
  readonly content?: ArtifactContent;
}

/** A change of an artifact; absent members keep their value. */
export interface ArtifactChange {
  readonly name?: string;
  /** Default: unchanged. */
  readonly mediaType?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly content?: ArtifactContent;
}

/** Options of a change to an artifact. */
export interface UpdateOptions {
  /** Changes the artifact only if this is still its newest version. Default: always. */
  readonly version?: number | undefined;
}

/** Which version of an artifact is read. */
export interface VersionOptions {
  /** Default: the newest. */
  readonly version?: number | undefined;
}

/** The position of a chunk in the content of an artifact, and whether it is the last one. */
export interface ChunkOptions {
  /** The required size of the draft before this chunk, in bytes; 0 starts over. Default: its current size. */
  readonly offset?: number | undefined;
  /** True for the chunk that completes the content. Default false. */
  readonly last?: boolean | undefined;
}

/** The draft of an artifact after a chunk. */
export interface AppendedChunk {
  /** The size of the draft now, in bytes. */
  readonly size: number;
  /** With the last chunk: the new version. */
  readonly artifact?: ArtifactInfo;
}

/** Which artifacts `list` returns: those of a task, of a context, or all. */
export interface ArtifactQuery {
  readonly taskId?: string;
  readonly contextId?: string;
  /** The maximum number. Default 50. */
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
 * Stores the artifacts of turns: contents of any size, in versions.
 *
 * A version is written atomically and never changes. Content that does not fit into memory is written by `append`, chunk by
 * chunk, into a draft that is invisible until its last chunk, and read by `read`.
 *
 * Errors are `AgentLoopError`s: `INVALID_INPUT` for invalid arguments, `NOT_FOUND`, `CONFLICT`, `FULL` if the storage is full,
 * `UNAVAILABLE`, and `POISON` for corrupt content. A method that can answer at once may return the value
 * instead of a promise; it then throws instead of rejecting. Infos and contents are copied in both directions.
 */
export interface ArtifactStore {
  /** Creates version 1. Errors: `CONFLICT` if the id exists. */
  create(artifact: NewArtifact): MaybePromise<ArtifactInfo>;

  /** Creates a new version. Errors: `NOT_FOUND`; `CONFLICT` if `version` is passed and is no longer the newest. */
  update(artifactId: string, change: ArtifactChange, options?: UpdateOptions): MaybePromise<ArtifactInfo>;

  /**
   * Adds a chunk to the draft of the next version's content, which starts empty; the last chunk creates the version. Calls apply in
   * order. A draft belongs to this instance and is lost with it; other instances may write their own drafts, and change
   * the artifact meanwhile: the new version takes everything but the content from the newest version. `FULL` and `UNAVAILABLE` discard the draft.
   * Errors: `NOT_FOUND`; `CONFLICT`, which keeps the draft, if `offset` is neither 0 nor the size of the draft.
   */
  append(artifactId: string, chunk: ArtifactContent, options?: ChunkOptions): MaybePromise<AppendedChunk>;

  /** A version without its content; null if there is no such artifact or version. */
  describe(artifactId: string, options?: VersionOptions): MaybePromise<ArtifactInfo | null>;

  /** The artifact with its content, whole in memory; null if there is no such artifact or version. */
  get(artifactId: string, options?: VersionOptions): MaybePromise<Artifact | null>;

  /**
   * The content of one version, in chunks, even if a newer version is created meanwhile. Leaving the iteration releases its resources.
   * Errors: `NOT_FOUND` at the first chunk, `POISON` at the end.
   */
  read(artifactId: string, options?: VersionOptions): AsyncIterable<Uint8Array>;

  /** A page of the artifacts that match the query. An artifact that exists throughout the paging is on exactly one page. */
  list(query?: ArtifactQuery): MaybePromise<ArtifactPage>;

  /** Deletes an artifact with all its versions. Does nothing if there is none. */
  delete(artifactId: string): MaybePromise<void>;
}

/** A chunk of an artifact that a tool generates. Passed to `context.progress`, it is emitted as an `artifact-update` event. */
export interface ArtifactChunk {
  readonly type: 'artifact-chunk';
  readonly artifactId: string;
  /** Default none. */
  readonly name?: string;
  readonly text: string;
  /** False: replaces the artifact's content. */
  readonly append: boolean;
  /** Whether this completes the content. */
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

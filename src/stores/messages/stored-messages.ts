import {
  AgentLoopError,
  type ContextPage,
  type ContextQuery,
  type ContextSummary,
  checkMessages,
  type LoadOptions,
  type Message,
  type MessagePage,
  type MessageQuery,
  type MetadataOptions,
  maxAgentIdLength,
  maxTurnLength,
  type StoredMessage,
  shownValue,
  type TurnAppendOptions,
  taskIdPattern,
} from '../../core/contracts/index.ts';
import { encodeJson } from '../check-arguments.ts';
import { assertTaskId } from '../store-rules.ts';

/** The metadata that a store adds to an appended message; its id consists of its turn and its position in the context. */
interface MessageStamp {
  readonly taskId: string;
  readonly createdAt: string;
}

/** A message as appended. Those stored by 0.1 have no stamp. */
export interface StampedMessage {
  readonly message: Message;
  readonly stamp: MessageStamp | undefined;
}

/** The turn that appends messages, and the time, in milliseconds since 1970. */
interface Stamping extends Pick<TurnAppendOptions, 'createdAt'> {
  readonly taskId: string;
  readonly now: number;
}

/** Adds a stamp to each message. Errors: `INVALID_INPUT` for invalid times, or another number of times than messages. */
function withStamps(
  messages: readonly Message[],
  { taskId, createdAt, now }: Stamping,
): readonly { readonly message: Message; readonly stamp: MessageStamp }[] {
  if (createdAt && createdAt.length !== messages.length) {
    throw invalid(`createdAt has ${createdAt.length} times for ${messages.length} messages; give one for each.`);
  }
  const appended = new Date(now).toISOString();
  return messages.map((message, index) => {
    const given = message.createdAt ?? createdAt?.[index];
    return { message, stamp: { taskId, createdAt: given === undefined ? appended : isoOf(given) } };
  });
}

/** Of a message, `checkMessages` has looked at it. */
function isoOf(time: string): string {
  const at = Date.parse(time);
  if (Number.isNaN(at)) throw invalid(`createdAt must be times of ISO 8601, got ${shownValue(time)}.`);
  return new Date(at).toISOString();
}

/** The member of an entry with the stamp, after those of the message: earlier versions read such an entry as a message. */
const stampName = 'millrace.stored';

/** The JSON of a message and its stamp in one string. */
function entryOf(text: string, stamp: MessageStamp): string {
  return `${text.slice(0, -1)},"${stampName}":${JSON.stringify(stamp)}}`;
}

/** Splits a parsed entry, which must not be used after that. */
export function stampedOf(entry: Message & { [stampName]?: MessageStamp }): StampedMessage {
  const stamp = entry[stampName];
  delete entry[stampName];
  return { message: entry, stamp };
}

/** The query with its defaults, and the position that `after` names. Errors: `INVALID_INPUT`. */
interface PageRequest {
  readonly limit: number;
  readonly newestFirst: boolean;
  readonly after: string | undefined;
  /** The position of the message `after`, if it exists; -1 for none. */
  readonly position: number;
}

export function pageRequestOf({ limit = 50, order = 'oldest-first', after }: MessageQuery): PageRequest {
  if (!Number.isSafeInteger(limit) || limit < 1) {
    throw invalid(`limit is ${shownValue(limit)}; use an integer ≥ 1.`);
  }
  if (order !== 'oldest-first' && order !== 'newest-first') {
    throw invalid(`order must be "oldest-first" or "newest-first", got ${shownValue(order)}.`);
  }
  return { limit, newestFirst: order === 'newest-first', after, position: positionIn(after) };
}

/** Ids end with the position of their message. */
function positionIn(id: string | undefined): number {
  if (id === undefined) return -1;
  const digits = /:(\d{1,15})$/.exec(id)?.[1];
  // Beyond every context, so it matches no message.
  return digits === undefined ? Number.MAX_SAFE_INTEGER : Number(digits);
}

interface Span {
  /** The first position. */
  readonly from: number;
  /** The position after the last one. */
  readonly to: number;
}

/** The requested positions in a context of `total` messages. */
export function spanOf(total: number, { limit = Number.POSITIVE_INFINITY, before = total }: LoadOptions): Span {
  const to = Math.min(before, total);
  return { from: Math.max(0, to - limit), to };
}

/** The positions of a page in a context of `total` messages. */
export function pageSpan({ limit, newestFirst, position }: PageRequest, total: number): Span {
  if (newestFirst) {
    const to = position < 0 ? total : Math.min(position, total);
    return { from: Math.max(0, to - limit), to };
  }
  const from = Math.min(position + 1, total);
  return { from, to: Math.min(from + limit, total) };
}

/** The data that a store read for a page. */
interface ReadPage extends Span {
  readonly contextId: string;
  /** The number of messages in the context. */
  readonly total: number;
  /** When the context was created, in milliseconds since 1970. */
  readonly since: number;
  /** The messages of the positions. */
  readonly messages: readonly StampedMessage[];
  /** The message at the position that the query names, if any. */
  readonly before: StampedMessage | undefined;
}

/** The page for a query. Errors: `INVALID_INPUT` if `after` is not a message of the context. */
export function messagePageOf(request: PageRequest, read: ReadPage): MessagePage {
  const { after, newestFirst, position } = request;
  if (after !== undefined && !(read.before && storedOf(read, read.before, position).id === after)) {
    throw invalid(
      `The context "${read.contextId}" has no message ${shownValue(after)}; give the next of a page of it, or the id of one of its messages.`,
    );
  }
  const messages = read.messages.map((each, index) => storedOf(read, each, read.from + index));
  if (newestFirst) messages.reverse();
  const hasMore = newestFirst ? read.from > 0 : read.to < read.total;
  const last = messages.at(-1);
  return hasMore && last ? { messages, next: last.id } : { messages };
}

function storedOf(
  { contextId, since }: Pick<ReadPage, 'contextId' | 'since'>,
  { message, stamp }: StampedMessage,
  position: number,
): StoredMessage {
  if (stamp) return { id: `${stamp.taskId}:${position}`, createdAt: stamp.createdAt, taskId: stamp.taskId, message };
  const createdAt = message.createdAt === undefined ? new Date(since).toISOString() : isoOf(message.createdAt);
  return { id: `${contextId}:${position}`, createdAt, message };
}

function invalid(sentence: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', sentence);
}

/** Refuses an invalid context id: `INVALID_INPUT`. */
export function assertContextId(contextId: string): void {
  if (typeof contextId === 'string' && taskIdPattern.test(contextId)) return;
  throw invalid(
    `The context id ${shownValue(contextId)} is invalid; use 1 to 128 of the characters A-Z a-z 0-9 _ . : -`,
  );
}

export function assertTurn(contextId: string, taskId: string): void {
  assertContextId(contextId);
  assertTaskId(taskId);
}

/** Refuses an invalid agent id; `needed`: also an absent one. Errors: `INVALID_INPUT`. */
export function assertAgentId(agentId: string | undefined, needed?: 'needed'): void {
  if (agentId === undefined && !needed) return;
  if (typeof agentId === 'string' && agentId !== '' && agentId.length <= maxAgentIdLength) return;
  throw invalid(`agentId must be a string of 1 to ${maxAgentIdLength} characters, got ${shownValue(agentId)}.`);
}

/** The arguments of a message store's `append`, and the time, in milliseconds since 1970. */
interface AppendedTurn extends TurnAppendOptions {
  readonly contextId: string;
  readonly taskId: string;
  readonly messages: readonly Message[];
  readonly now: number;
}

/** Checks the arguments of `append`. Returns the messages as JSON, one string each, with their stamps. Errors: `INVALID_INPUT`, also for what is no message, changes in JSON, or is too large. */
export function encodeTurn({ contextId, agentId, messages, ...stamping }: AppendedTurn): readonly string[] {
  const { taskId } = stamping;
  assertTurn(contextId, taskId);
  assertAgentId(agentId);
  checkMessages(messages);
  const texts = withStamps(messages, stamping).map(({ message, stamp }, index) =>
    entryOf(encodeJson(message, `messages[${index}]`), stamp),
  );
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  if (length <= maxTurnLength) return texts;
  throw invalid(
    `The messages of task ${JSON.stringify(taskId)} are ${length} characters of JSON, more than ${maxTurnLength}; keep large content in an ArtifactStore and refer to it.`,
  );
}

export function assertLoadOptions({ limit, before }: LoadOptions): void {
  assertCount('limit', limit);
  assertCount('before', before);
}

/** Errors: `INVALID_INPUT`. */
export function assertVersion({ version, minTotal }: MetadataOptions): void {
  assertCount('version', version);
  assertCount('minTotal', minTotal);
}

/** The query with its defaults. Errors: `INVALID_INPUT`. */
export function contextQueryOf({ limit = 50, after = '' }: ContextQuery): Required<ContextQuery> {
  if (!Number.isSafeInteger(limit) || limit < 1) {
    throw invalid(`limit is ${shownValue(limit)}; use an integer ≥ 1.`);
  }
  if (after !== '') assertContextId(after);
  return { limit, after };
}

export function versionConflict(contextId: string, expected: number, found: number): AgentLoopError {
  return new AgentLoopError(
    'CONFLICT',
    `The metadata of context "${contextId}" has version ${found}, not ${expected}: it was changed concurrently; load it and try again.`,
  );
}

export function totalConflict(contextId: string, expected: number, found: number): AgentLoopError {
  return new AgentLoopError(
    'CONFLICT',
    `The context "${contextId}" has ${found} messages, fewer than ${expected}: it was deleted meanwhile; load it and try again.`,
  );
}

function assertCount(name: string, value: number | undefined): void {
  if (value === undefined || value === Number.POSITIVE_INFINITY || (Number.isSafeInteger(value) && value >= 0)) return;
  throw invalid(`${name} is ${shownValue(value)}; use an integer ≥ 0, or omit it.`);
}

/** The data of a context beside its messages; times in milliseconds since 1970. */
interface ContextFigures {
  readonly contextId: string;
  readonly total: number;
  /** The number of open turns. */
  readonly open: number;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** The bytes of its messages, if they are counted. */
  readonly bytes?: number;
}

export function summaryOf({ contextId, total, open, createdAt, updatedAt, bytes }: ContextFigures): ContextSummary {
  return {
    contextId,
    total,
    openTurns: open,
    createdAt: new Date(createdAt).toISOString(),
    updatedAt: new Date(updatedAt).toISOString(),
    ...(bytes !== undefined && { bytes }),
  };
}

/** A page of at most `limit` from ordered summaries, which include one more if there is a next page. */
export function pageOf(summaries: readonly ContextSummary[], limit: number): ContextPage {
  const contexts = summaries.slice(0, limit);
  const last = contexts.at(-1);
  return summaries.length > limit && last ? { contexts, next: last.contextId } : { contexts };
}

/** The error of a damaged context; `what` names the part. */
export function damagedContext(contextId: string, what: string): AgentLoopError {
  return new AgentLoopError(
    'POISON',
    `The context "${contextId}" cannot be read: ${what}; restore the store from a backup, or delete the context.`,
  );
}

/** Parses a stored part of a context; `what` names it. Errors: `POISON`. */
export function parsedPart<T>(contextId: string, text: string, what: string): T {
  try {
    return JSON.parse(text);
  } catch {
    throw damagedContext(contextId, what);
  }
}

/** The error of a context that a newer version wrote. */
export function newerContext(contextId: string, layout: number): AgentLoopError {
  return new AgentLoopError(
    'SCHEMA',
    `The context "${contextId}" has layout ${layout}, which this version cannot read; update millrace.`,
  );
}

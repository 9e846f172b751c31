import type { Part, Task, Message as WireMessage } from '@a2a-js/sdk';
import {
  hasInfiniteNumber,
  invalidConfig,
  maxJsonDepth,
  nestsTooDeep,
  type UserMessage,
} from '../core/contracts/index.ts';
import { contentOf, formsOf, type PartForm } from './parts.ts';
import { malformed } from './protocol-errors.ts';

/** How large a message may be, and how much may be kept for those who send them. `Infinity`: no limit. */
export interface MessageLimits {
  /** Default 100. */
  readonly maxParts?: number | undefined;
  /** Of all texts, data, files and metadata together; default 10 MiB. */
  readonly maxMessageBytes?: number | undefined;
  /** Messages that a task may have in its history, with those that wait for its turn to read them, before it takes no more; default 10,000. */
  readonly maxHistory?: number | undefined;
  /**
   * What the stores may keep for one owner, a user in a tenant, before new messages and registrations are refused: journals, conversations,
   * artifacts, registrations. All who do not say who they are count as one, whatever tenants they name. Bytes; default 1 GiB.
   */
  readonly maxKeptBytes?: number | undefined;
}

export type ResolvedLimits = Readonly<Record<keyof MessageLimits, number>>;

export const defaultLimits: ResolvedLimits = {
  maxParts: 100,
  maxMessageBytes: 10 * 2 ** 20,
  maxHistory: 10_000,
  maxKeptBytes: 2 ** 30,
};

/** Fills in the defaults. Errors: `INVALID_CONFIG` for an unknown limit, and for a value that is not a positive number. */
export function resolveLimits(limits: MessageLimits = {}): ResolvedLimits {
  const cure = `the limits are: ${Object.keys(defaultLimits).join(', ')}`;
  if (typeof limits !== 'object' || limits === null) throw invalidConfig('limits must be an object', cure);
  const given = Object.entries(limits).filter(([, value]) => value !== undefined);
  for (const [name, value] of given) {
    if (!Object.hasOwn(defaultLimits, name)) throw invalidConfig(`limits.${name} is not a limit`, cure);
    if (!(typeof value === 'number' && value > 0))
      throw invalidConfig(`limits.${name} must be a number above 0`, 'or leave it out');
  }
  return { ...defaultLimits, ...Object.fromEntries(given) };
}

/** What of a message our own has no place for. */
interface ReceivedMetadata {
  readonly parts?: readonly PartForm[];
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly extensions?: readonly string[];
  readonly referenceTaskIds?: readonly string[];
}

const maxIdLength = 256;
const userRole = 1;

/** Checks a message as far as its own form goes. Errors: RequestMalformed, naming the member and the cure. */
export function checkedMessage(
  message: WireMessage | undefined,
  { maxParts, maxMessageBytes }: ResolvedLimits,
): WireMessage {
  if (!message) throw malformed('message is required.');
  if (!message.messageId.trim()) throw malformed('message.messageId is required.');
  if (message.role !== userRole) throw malformed('message.role must be ROLE_USER.');
  for (const name of ['messageId', 'contextId', 'taskId'] as const) {
    if (message[name].length > maxIdLength)
      throw malformed(`message.${name} must have at most ${maxIdLength} characters.`);
  }
  if (message.parts.length === 0) throw malformed('message.parts must hold at least one part.');
  if (message.parts.length > maxParts) throw malformed(`message.parts must hold at most ${maxParts} parts.`);
  if (!message.parts.every(({ content }) => content && (content.$case === 'data' || isContent(content.value))))
    throw malformed('Each part needs a content: text, data, raw or url.');
  const values = valuesOf(message);
  if (values.some(nestsTooDeep)) throw malformed(`The message nests deeper than ${maxJsonDepth} levels.`);
  if (values.some(hasInfiniteNumber)) throw malformed('The message has a number that is not finite.');
  if (!(sizeOf(message) <= maxMessageBytes))
    throw malformed(`The message is larger than ${maxMessageBytes} bytes; send large files by reference.`);
  return message;
}

/** The JSON of a message. */
function valuesOf({ parts, metadata }: WireMessage): readonly unknown[] {
  const values = parts.flatMap((part) => [
    part.metadata,
    part.content?.$case === 'data' ? part.content.value : undefined,
  ]);
  return [metadata, ...values];
}

/** The codecs of 0.3 pass on what a client left out. */
function isContent(value: unknown): boolean {
  return typeof value === 'string' || Buffer.isBuffer(value);
}

type Sized = Pick<WireMessage, 'parts' | 'metadata' | 'extensions'> & Partial<Pick<WireMessage, 'referenceTaskIds'>>;

/** Of all that is kept of a message: bytes of files, characters of everything else. */
export function sizeOf({ parts, metadata, extensions, referenceTaskIds = [] }: Sized): number {
  const ofParts = parts.reduce((sum, part) => sum + sizeOfPart(part), 0);
  return ofParts + sizeOfJson(metadata) + sizeOfNames(extensions) + sizeOfNames(referenceTaskIds);
}

function sizeOfPart({ content, metadata, filename, mediaType }: Part): number {
  return sizeOfContent(content) + sizeOfJson(metadata) + (filename?.length ?? 0) + (mediaType?.length ?? 0);
}

function sizeOfNames(names: readonly string[] | undefined): number {
  return names ? names.reduce((sum, name) => sum + name.length, 0) : 0;
}

/** How many bytes a journal needs for a message: files are in base64 there. */
export function keptSizeOf({ parts, metadata, extensions, referenceTaskIds }: WireMessage): number {
  return parts.reduce(
    (sum, { content, ...rest }) => {
      const value = content?.value;
      const bytes = Buffer.isBuffer(value) ? Math.ceil(value.length / 3) * 4 : keptSizeOfJson(value);
      return sum + bytes + keptSizeOfJson(rest);
    },
    keptSizeOfJson([metadata, extensions, referenceTaskIds]),
  );
}

/** The bytes of a value as JSON. */
export function keptSizeOfJson(value: unknown): number {
  return value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value));
}

/** The same of all that a task holds. */
export function sizeOfTask({ history, artifacts, status }: Task): number {
  const messages = [...history, ...(status?.message ? [status.message] : [])];
  return [...messages, ...artifacts].reduce((sum, each) => sum + sizeOf(each), 0);
}

function sizeOfContent(content: WireMessage['parts'][number]['content']): number {
  return content?.$case === 'data' ? sizeOfJson(content.value) : (content?.value.length ?? 0);
}

/** What cannot be written as JSON counts as too large. */
function sizeOfJson(value: unknown): number {
  try {
    return value === undefined ? 0 : JSON.stringify(value).length;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** The message as the model gets it, with what a client is shown of it later. Errors: as `contentOf`. */
export function userMessageOf(message: WireMessage, inputModes: readonly string[]): UserMessage {
  const parts = formsOf(message.parts);
  const { metadata, extensions, referenceTaskIds } = message;
  const received: ReceivedMetadata = {
    ...(parts && { parts }),
    ...(metadata && Object.keys(metadata).length > 0 && { metadata }),
    ...(extensions.length > 0 && { extensions }),
    ...(referenceTaskIds.length > 0 && { referenceTaskIds }),
  };
  return {
    role: 'user',
    id: message.messageId,
    content: contentOf(message.parts, inputModes),
    ...(Object.keys(received).length > 0 && { metadata: { a2a: received } }),
  };
}

/** What `userMessageOf` kept of a message. */
export function receivedMetadataOf({ metadata }: UserMessage): ReceivedMetadata {
  const kept: ReceivedMetadata | undefined = isObject(metadata?.['a2a']) ? metadata['a2a'] : undefined;
  return kept ?? {};
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

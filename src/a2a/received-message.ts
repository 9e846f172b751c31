import type { Part, Task, Message as WireMessage } from '@a2a-js/sdk';
import {
  type Content,
  type ContentPart,
  hasInfiniteNumber,
  hasTooManyValues,
  isObject,
  maxJsonDepth,
  maxJsonValues,
  nestsTooDeep,
  parsedJson,
  type UserMessage,
} from '../core/contracts/index.ts';
import { unsafeInLogs } from '../guarded-logger.ts';
import { isWebAddress, webAddressRule } from '../web-address.ts';
import type { ResolvedLimits } from './handler-options.ts';
import { contentNotSupported, malformed } from './protocol-errors.ts';

/** What of a message our own has no place for. */
interface ReceivedMetadata {
  readonly parts?: readonly PartForm[];
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly extensions?: readonly string[];
  readonly referenceTaskIds?: readonly string[];
}

const maxIdLength = 256;
/** What an id must not have: stores and clients would receive U+FFFD for every lone surrogate. */
export const unsafeInIds = new RegExp(`[${unsafeInLogs.source.slice(1, -1)}\\p{Surrogate}]`, 'u');
/** In words. */
export const wellFormedId = 'must not have control characters or lone surrogates';
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
    if (unsafeInIds.test(message[name])) throw malformed(`message.${name} ${wellFormedId}.`);
  }
  const { referenceTaskIds = [] }: Sized = message;
  if (referenceTaskIds.some((id) => unsafeInIds.test(id))) throw malformed(`message.referenceTaskIds ${wellFormedId}.`);
  if (message.parts.length === 0) throw malformed('message.parts must hold at least one part.');
  if (message.parts.length > maxParts) throw malformed(`message.parts must hold at most ${maxParts} parts.`);
  if (!message.parts.every(({ content }) => content && (content.$case === 'data' || isContent(content.value))))
    throw malformed('Each part needs a content: text, data, raw or url.');
  const values = valuesOf(message);
  if (values.some((value) => nestsTooDeep(value, maxValueDepth)))
    throw malformed(`The message nests deeper than ${maxJsonDepth} levels.`);
  if (hasTooManyValues(values))
    throw malformed(
      `The message has more than ${maxJsonValues} values in metadata and data; send large data as a file.`,
    );
  if (values.some(hasInfiniteNumber)) throw malformed('The message has a number that is not finite.');
  if (!(sizeOf(message) <= maxMessageBytes))
    throw malformed(`The message is larger than ${maxMessageBytes} bytes; send large files by reference.`);
  return message;
}

/** A request in JSON has that many levels around a value, and the journal some: over gRPC, the same values are accepted. */
const maxValueDepth = maxJsonDepth - 5;

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
function sizeOf({ parts, metadata, extensions, referenceTaskIds = [] }: Sized): number {
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

/** What a part was besides its content, so that a client is shown what it sent. */
interface PartForm {
  readonly kind: 'text' | 'data' | 'raw' | 'url';
  readonly mediaType?: string;
  readonly filename?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/**
 * The content for the model, part by part: texts as they are, data as JSON text, pictures and files as such. Errors:
 * ContentTypeNotSupported for what no model is given and for what is not among the agent's input modes (all are, where there are none).
 */
function contentOf(parts: readonly Part[], inputModes: readonly string[]): Content {
  const contents = parts.map((part) => contentPartOf(part, inputModes));
  const [only] = contents;
  return only?.type === 'text' && contents.length === 1 ? only.text : contents;
}

function contentPartOf(part: Part, inputModes: readonly string[]): ContentPart {
  const { content, filename } = part;
  const mediaType = part.mediaType.toLowerCase();
  switch (content?.$case) {
    case 'text':
      return { type: 'text', text: content.value };
    case 'data':
      return { type: 'text', text: JSON.stringify(content.value ?? null) };
    case 'raw': {
      const type = mediaType || 'application/octet-stream';
      assertMode(type, inputModes);
      const url = `data:${type};base64,${content.value.toString('base64')}`;
      if (type.startsWith('image/')) return { type: 'image_url', image_url: { url } };
      return { type: 'file', file: { file_data: url, ...(filename && { filename }) } };
    }
    case 'url':
      assertMode(mediaType || 'image/*', inputModes);
      if (mediaType.startsWith('image/') || isPicture(content.value))
        return { type: 'image_url', image_url: { url: webAddress(content.value) } };
      throw contentNotSupported(
        `A file of type "${mediaType || 'unknown'}" is not fetched from its url; send its content.`,
      );
    case undefined:
      throw malformed('Each part needs a content: text, data, raw or url.');
  }
}

function assertMode(mediaType: string, inputModes: readonly string[]): void {
  if (inputModes.length === 0 || inputModes.some((mode) => overlap(mode, mediaType) || overlap(mediaType, mode)))
    return;
  throw contentNotSupported(`Media type "${mediaType}" is not supported; the agent takes: ${inputModes.join(', ')}.`);
}

/**
 * Rejects a client that can read nothing of what the agent gives. Text is text to it in whichever form it names (`text/markdown`, or
 * `text` for short). Errors: ContentTypeNotSupported; never where either side names nothing.
 */
export function assertReadable(accepted: readonly string[], outputModes: readonly string[]): void {
  if (accepted.length === 0 || outputModes.length === 0) return;
  const taken = accepted.map(mediaRange);
  const given = outputModes.map(mediaRange);
  if (taken.some((mode) => given.some((other) => overlap(mode, other) || overlap(other, mode)))) return;
  throw contentNotSupported(
    `None of the output modes that you accept is the agent's; accept one of: ${outputModes.join(', ')}.`,
  );
}

/** Without parameters; of texts, any. */
function mediaRange(mode: string): string {
  const type = (mode.split(';', 1)[0] ?? '').trim().toLowerCase();
  return type === 'text' || type.startsWith('text/') ? 'text/*' : type;
}

/** Whether a media type is the pattern, or falls under it: `image/*`. */
function overlap(pattern: string, mediaType: string): boolean {
  if (pattern === mediaType || pattern === '*/*') return true;
  return pattern.endsWith('/*') && mediaType.startsWith(pattern.slice(0, -1));
}

function isPicture(url: string): boolean {
  return /\.(png|jpe?g|gif|webp)$/i.test(url.split(/[?#]/, 1)[0] ?? '');
}

/** The model's vendor fetches it, so it has to be an address of the web. */
function webAddress(url: string): string {
  if (isWebAddress(url)) return url;
  throw contentNotSupported(webAddressRule);
}

/** What `partsOf` needs besides the content. `undefined` for plain text, which needs nothing. */
function formsOf(parts: readonly Part[]): readonly PartForm[] | undefined {
  const forms = parts.map(({ content, mediaType, filename, metadata }) => ({
    kind: content?.$case ?? 'text',
    ...(mediaType && { mediaType }),
    ...(filename && { filename }),
    ...(metadata && Object.keys(metadata).length > 0 && { metadata }),
  }));
  const [only] = forms;
  return forms.length === 1 && only?.kind === 'text' && Object.keys(only).length === 1 ? undefined : forms;
}

/** The parts of a content, in the form in which they came where that is known. */
export function partsOf(content: Content | null, forms: readonly PartForm[] = []): Part[] {
  const contents: readonly ContentPart[] =
    typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? []);
  return contents.map((each, index) => partOf(each, forms[index]));
}

function partOf(content: ContentPart, form: PartForm | undefined): Part {
  const { mediaType = '', filename = '', metadata } = form ?? {};
  return { content: wireContent(content, form?.kind), mediaType, filename, metadata: metadata && { ...metadata } };
}

function wireContent(content: ContentPart, kind: PartForm['kind'] | undefined): Part['content'] {
  if (content.type === 'text') {
    return (kind === 'data' && dataIn(content.text)) || { $case: 'text', value: content.text };
  }
  const address = content.type === 'image_url' ? content.image_url.url : (content.file.file_data ?? '');
  const data = /^data:[^,]*;base64,/.exec(address)?.[0];
  return data === undefined
    ? { $case: 'url', value: address }
    : { $case: 'raw', value: Buffer.from(address.slice(data.length), 'base64') };
}

/** `undefined` where an extension has made something else of the JSON. */
function dataIn(text: string): { readonly $case: 'data'; readonly value: unknown } | undefined {
  try {
    return { $case: 'data', value: parsedJson(text) };
  } catch {
    return undefined;
  }
}

export function textPart(text: string): Part {
  return { content: { $case: 'text', value: text }, mediaType: '', filename: '', metadata: undefined };
}

/** `data`: JSON. */
export function dataPart(data: unknown): Part {
  return { content: { $case: 'data', value: data }, mediaType: 'application/json', filename: '', metadata: undefined };
}

const pattern = /^a2a(?:~[\w-]*)?\/[^/]*\/(.*)$/s;

/** What the message of a command is for. */
interface CommandOptions {
  /** The question that it answers. Default: it answers none. */
  readonly questionId?: string;
  /** `Scope.sender`. */
  readonly sender?: string;
}

/** The id of the command by which a message is followed, one for each question that it answers: a repeated one is followed once. */
export function commandOf(messageId: string, { questionId = '', sender = '' }: CommandOptions = {}): string {
  return `a2a${sender && `~${sender}`}/${questionId}/${messageId}`;
}

/** What the commands of one message of one sender have in common; `undefined` where a command is of none. */
export function sourceOf(command: string): string | undefined {
  return pattern.test(command) ? command.replace(/\/[^/]*\//, '//') : undefined;
}

/** The message that a command is of; `undefined` where it is of none. */
export function messageOfCommand(command: string): string | undefined {
  return pattern.exec(command)?.[1];
}

/** Whether a command is one of a sender's message. Those of older journals name no sender. */
export function isCommandOf(command: string, messageId: string, { sender }: { readonly sender: string }): boolean {
  const prefixes = [sender, ''].map((each) => commandOf('', { sender: each }).slice(0, -1));
  return prefixes.some((prefix) => command.startsWith(prefix)) && messageOfCommand(command) === messageId;
}

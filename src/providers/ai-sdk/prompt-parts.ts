import type {
  LanguageModelV3FilePart,
  LanguageModelV3TextPart,
  LanguageModelV3ToolResultOutput,
  SharedV3ProviderOptions,
} from '@ai-sdk/provider';
import {
  AgentLoopError,
  type Content,
  type FilePart,
  type ImagePart,
  type ToolMessage,
  textOf,
} from '../../core/contracts/index.ts';

export type MediaPart = ImagePart | FilePart;

/** The parts of a user's message. Errors: `INVALID_INPUT` for a part that the AI SDK has no form for. */
export function userParts(content: Content, name?: string): (LanguageModelV3TextPart | LanguageModelV3FilePart)[] {
  if (name !== undefined) return [{ type: 'text', text: `${name}:` }, ...userParts(content)];
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  return content.map((part) => (part.type === 'text' ? { type: 'text', text: part.text } : filePart(part)));
}

/** The parts of a content other than text. */
export function mediaOf(content: Content | null): readonly MediaPart[] {
  return typeof content === 'string' || content === null ? [] : content.filter((part) => part.type !== 'text');
}

/** A picture or a file; one by address is given as an address, which the vendor fetches or refuses. */
export function filePart(part: MediaPart): LanguageModelV3FilePart {
  const { data, mediaType, filename } = mediaContent(part);
  return {
    type: 'file',
    data: data instanceof URL ? data : data.base64,
    mediaType,
    ...(filename === undefined ? {} : { filename }),
    ...detailOf(part),
  };
}

/** The OpenAI wire alone knows how close to look; members given for its own form of the part win over the AI SDK's. */
function detailOf(part: MediaPart): { providerOptions?: SharedV3ProviderOptions } {
  if (part.type !== 'image_url' || part.image_url.detail === undefined) return {};
  const { url, detail } = part.image_url;
  return { providerOptions: { openaiCompatible: { image_url: { url, detail } } } };
}

/**
 * The result of a tool as one output: text; JSON if the text is exactly what `JSON.stringify` returns, so that vendors with structured results
 * get them and others the same text; or, with pictures and files, one text in front of them.
 */
export function toolOutput({ content, status }: ToolMessage): LanguageModelV3ToolResultOutput {
  const text = textOf(content);
  const failed = status === 'error';
  const media = mediaOf(content);
  if (media.length > 0) {
    return {
      type: 'content',
      value: [{ type: 'text', text: withFailure(text, failed, media.length) }, ...media.map(resultPart)],
    };
  }
  const json = asJson(text);
  if (json !== undefined && !failed) return { type: 'json', value: json };
  return { type: failed ? 'error-text' : 'text', value: text };
}

/** A vendor's content of several parts cannot say that the call failed, and some need text. */
function withFailure(text: string, failed: boolean, media: number): string {
  if (failed) return text === '' ? 'The call failed.' : `The call failed: ${text}`;
  return text === '' ? `The call gave ${media === 1 ? 'a file' : `${media} files`}.` : text;
}

type JsonOutput = Extract<LanguageModelV3ToolResultOutput, { type: 'json' }>['value'];

/** The object or array whose canonical JSON is the string. */
function asJson(text: string): Exclude<JsonOutput, null> | undefined {
  if (!/^[[{]/.test(text)) return undefined;
  try {
    const value: Exclude<JsonOutput, null> = JSON.parse(text);
    return JSON.stringify(value) === text ? value : undefined;
  } catch {
    return undefined;
  }
}

type ResultPart = Extract<LanguageModelV3ToolResultOutput, { type: 'content' }>['value'][number];

function resultPart(part: MediaPart): ResultPart {
  const { data, mediaType, filename } = mediaContent(part);
  if (data instanceof URL) {
    if (part.type === 'image_url') return { type: 'image-url', url: data.href };
    return { type: 'file-url', url: data.href, mediaType };
  }
  if (mediaType.startsWith('image/')) return { type: 'image-data', data: data.base64, mediaType };
  return { type: 'file-data', data: data.base64, mediaType, ...(filename === undefined ? {} : { filename }) };
}

interface MediaContent {
  readonly data: URL | { readonly base64: string };
  /** Of a picture by address: `image/*`. */
  readonly mediaType: string;
  readonly filename?: string;
}

function mediaContent(part: MediaPart): MediaContent {
  if (part.type === 'image_url') return addressed(part.image_url.url, 'image/*', 'image_url.url');
  const { file_data: data, file_id: id, filename } = part.file;
  const named = filename === undefined ? {} : { filename };
  if (data !== undefined) return { ...addressed(data, typeOfName(filename), 'file.file_data'), ...named };
  if (id !== undefined && isAddress(id)) return { ...addressed(id, typeOfName(filename), 'file.file_id'), ...named };
  throw unsupported(
    'A file by the id that a vendor gave it cannot be sent through the AI SDK; give its content as file_data, or the address that Google gave it as file_id',
  );
}

/** A `data:` address with its content, any other as it is. */
function addressed(address: string, mediaType: string, member: string): MediaContent {
  const content = /^data:([^,;]*)((?:;[^,;]*)*),/i.exec(address);
  if (content !== null) {
    const [head, type = '', options = ''] = content;
    const rest = address.slice(head.length);
    const base64 = /;base64$/i.test(options) ? rest : Buffer.from(decodeURIComponent(rest), 'utf8').toString('base64');
    return { data: { base64 }, mediaType: type === '' ? 'text/plain' : type.toLowerCase() };
  }
  if (isAddress(address)) return { data: new URL(address), mediaType };
  throw unsupported(`${member} must be an address, https: or data:`);
}

function isAddress(text: string): boolean {
  return /^(https?|gs):\/\//i.test(text) && URL.canParse(text);
}

const typesOfNames: Readonly<Record<string, string>> = {
  pdf: 'application/pdf',
  txt: 'text/plain',
  md: 'text/plain',
  csv: 'text/csv',
  json: 'application/json',
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  mp3: 'audio/mpeg',
  wav: 'audio/wav',
  mp4: 'video/mp4',
};

/** Of a file by address, whose type nobody says. */
function typeOfName(filename: string | undefined): string {
  const extension = /\.(\w+)$/.exec(filename ?? '')?.[1]?.toLowerCase() ?? '';
  return typesOfNames[extension] ?? 'application/octet-stream';
}

function unsupported(sentence: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', `${sentence}.`);
}

/** What stands for the pictures and files of a result in a message of their own. */
export function mediaMessageParts(
  results: readonly { readonly name: string; readonly media: readonly MediaPart[] }[],
): (LanguageModelV3TextPart | LanguageModelV3FilePart)[] {
  return results.flatMap(({ name, media }) => [
    { type: 'text' as const, text: `[from the result of ${name}]` },
    ...media.map(filePart),
  ]);
}

/** The content without its pictures and files, for a vendor that takes only texts as results. */
export function withoutMedia(message: ToolMessage): ToolMessage {
  const media = mediaOf(message.content);
  if (media.length === 0) return message;
  const text = textOf(message.content);
  const note = `[${media.length === 1 ? 'its file follows' : `its ${media.length} files follow`} in the next message]`;
  return { ...message, content: text === '' ? note : `${text}\n${note}` };
}

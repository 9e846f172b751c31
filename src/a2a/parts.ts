import type { Part } from '@a2a-js/sdk';
import type { Content, ContentPart } from '../core/contracts/index.ts';
import { contentNotSupported, malformed } from './protocol-errors.ts';

/** What a part was besides its content, so that a client is shown what it sent. */
export interface PartForm {
  readonly kind: 'text' | 'data' | 'raw' | 'url';
  readonly mediaType?: string;
  readonly filename?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/**
 * The content for the model, part by part: texts as they are, data as JSON text, pictures and files as such. Errors:
 * ContentTypeNotSupported for what no model is given and for what is not among the agent's input modes (all are, where there are none).
 */
export function contentOf(parts: readonly Part[], inputModes: readonly string[]): Content {
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
  if (/^https:\/\//i.test(url)) return url;
  throw contentNotSupported('The url of a file must begin with https://; or send its content.');
}

/** What `partsOf` needs besides the content. `undefined` for plain text, which needs nothing. */
export function formsOf(parts: readonly Part[]): readonly PartForm[] | undefined {
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
    return { $case: 'data', value: JSON.parse(text) };
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

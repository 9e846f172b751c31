import {
  AgentLoopError,
  type AssistantMessage,
  type Content,
  type FilePart,
  type ImagePart,
  type ToolCall,
  type ToolMessage,
  textNestsTooDeep,
  textOf,
} from '../../core/contracts/index.ts';
import { digestOf } from '../model-origin.ts';
import { isJsonObject, jsonIn } from '../openai-wire/wire-errors.ts';
import type {
  SdkAssistantPart,
  SdkFilePart,
  SdkJson,
  SdkOutput,
  SdkOutputPart,
  SdkUserPart,
  VendorData,
} from './sdk-model.ts';
import type { VendorPart, VendorParts } from './vendor-parts.ts';

type MediaPart = ImagePart | FilePart;

/** The parts of a user's message. Errors: `INVALID_INPUT` for a part that the AI SDK has no form for. */
export function userParts(content: Content, name?: string): SdkUserPart[] {
  if (name !== undefined) return [{ type: 'text', text: `${name}:` }, ...userParts(content)];
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  return content.map((part) => (part.type === 'text' ? { type: 'text', text: part.text } : filePart(part)));
}

/** The parts of a content other than text. */
export function mediaOf(content: Content | null): readonly MediaPart[] {
  return typeof content === 'string' || content === null ? [] : content.filter((part) => part.type !== 'text');
}

/** A picture or a file; one by address is given as an address, which the vendor fetches or refuses. */
function filePart(part: MediaPart): SdkFilePart {
  const { data, mediaType, filename } = mediaContent(part);
  return {
    type: 'file',
    data: data instanceof URL ? data : data.base64,
    mediaType,
    ...(filename === undefined ? {} : { filename }),
    ...detailOf(part),
  };
}

/** OpenAI alone knows how close to look. */
function detailOf(part: MediaPart): { providerOptions?: VendorData } {
  if (part.type !== 'image_url' || part.image_url.detail === undefined) return {};
  return { providerOptions: { openai: { imageDetail: part.image_url.detail } } };
}

/**
 * The result of a tool as one output: text; JSON if the text is exactly what `JSON.stringify` returns, so that vendors with structured results
 * get them and others the same text; or, with pictures and files, one text in front of them.
 */
export function toolOutput({ content, status }: ToolMessage): SdkOutput {
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

/** The object or array whose canonical JSON is the string. */
function asJson(text: string): SdkJson | undefined {
  if (!/^[[{]/.test(text) || textNestsTooDeep(text)) return undefined;
  try {
    const value: SdkJson = JSON.parse(text);
    return JSON.stringify(value) === text ? value : undefined;
  } catch {
    return undefined;
  }
}

function resultPart(part: MediaPart): SdkOutputPart {
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

interface AssistantForm {
  /** How the vendor composed the message; absent where another one gave it. */
  readonly kept: VendorParts | undefined;
  readonly sendReasoning: boolean;
}

/**
 * The parts of the model's own message: just as the vendor gave them, signatures and all, where it was this one; else its text, files
 * and calls. Changed text is sent without the vendor's metadata, changed reasoning not at all.
 */
export function assistantParts(message: AssistantMessage, form: AssistantForm): SdkAssistantPart[] {
  const { kept } = form;
  const parts = kept === undefined ? [] : new KeptParts(message, form, kept).all();
  const hasText = kept?.parts.some(({ type }) => type === 'text') === true;
  const media = kept === undefined ? mediaOf(message.content).map(filePart) : [];
  const text = textOf(message.content);
  if (text !== '' && !hasText) parts.unshift({ type: 'text', text });
  const placed = new Set(kept?.parts.flatMap((part) => (part.type === 'call' ? [part.index] : [])));
  const calls = (message.toolCalls ?? []).flatMap((call, index) => (placed.has(index) ? [] : [callPart(call)]));
  return [...parts, ...media, ...calls];
}

/** Puts texts, calls and files of a message back where the vendor had them. */
class KeptParts {
  readonly #message: AssistantMessage;
  readonly #form: AssistantForm;
  readonly #kept: VendorParts;
  readonly #text: string;
  readonly #reasoning: string;
  #textTaken = 0;
  #reasoningTaken = 0;

  constructor(message: AssistantMessage, form: AssistantForm, kept: VendorParts) {
    this.#message = message;
    this.#form = form;
    this.#kept = kept;
    this.#text = textOf(message.content);
    this.#reasoning = message.reasoning ?? '';
  }

  all(): SdkAssistantPart[] {
    const { parts, digests } = this.#kept;
    const textFits = digests.text === digestOf(this.#text);
    const reasoningFits = this.#form.sendReasoning && digests.reasoning === digestOf(this.#reasoning);
    return parts.flatMap((part) => {
      if (part.type === 'text' || part.type === 'reasoning') {
        if (part.type === 'text') return textFits ? this.#piece(part) : this.#changedText();
        return reasoningFits ? this.#thought(part) : [];
      }
      const restored = this.#other(part);
      return restored === undefined ? [] : [{ ...restored, ...optionsOf(part) }];
    });
  }

  #piece(part: VendorPart & { readonly length: number }): SdkAssistantPart[] {
    const text = this.#text.slice(this.#textTaken, this.#textTaken + part.length);
    this.#textTaken += part.length;
    return text === '' ? [] : [{ type: 'text', text, ...optionsOf(part) }];
  }

  /** The whole text, once. */
  #changedText(): SdkAssistantPart[] {
    const text = this.#text.slice(this.#textTaken);
    this.#textTaken = this.#text.length;
    return text === '' ? [] : [{ type: 'text', text }];
  }

  #thought(part: VendorPart & { readonly length: number }): SdkAssistantPart[] {
    const text = this.#reasoning.slice(this.#reasoningTaken, this.#reasoningTaken + part.length);
    this.#reasoningTaken += part.length;
    return [{ type: 'reasoning', text, ...optionsOf(part) }];
  }

  #other(part: Exclude<VendorPart, { type: 'text' | 'reasoning' }>): SdkAssistantPart | undefined {
    switch (part.type) {
      case 'call': {
        const call = this.#message.toolCalls?.[part.index];
        return call && callPart(call);
      }
      case 'media': {
        const media = mediaOf(this.#message.content)[part.index];
        return media && filePart(media);
      }
      case 'vendor-text':
        return { type: 'text', text: part.text };
      case 'vendor-call':
        return {
          type: 'tool-call',
          toolCallId: part.id,
          toolName: part.name,
          input: inputOf(part.input),
          providerExecuted: true,
        };
      case 'custom':
        return { type: 'custom', kind: part.kind };
      case 'vendor-result': {
        const value = JSON.parse(JSON.stringify(part.result));
        const output = { type: part.failed === true ? ('error-json' as const) : ('json' as const), value };
        return { type: 'tool-result', toolCallId: part.id, toolName: part.name, output };
      }
    }
  }
}

function optionsOf({ data }: VendorPart): { providerOptions?: NonNullable<VendorPart['data']> } {
  return data === undefined ? {} : { providerOptions: data };
}

function callPart({ id, function: called }: ToolCall): SdkAssistantPart {
  return { type: 'tool-call', toolCallId: id, toolName: called.name, input: inputOf(called.arguments) };
}

/** Vendors expect an object: no arguments become `{}`, and anything but a JSON object is sent as `{ _raw: … }`. */
function inputOf(text: string): unknown {
  if (text.trim() === '') return {};
  const value = jsonIn(text);
  return isJsonObject(value) ? value : { _raw: text };
}

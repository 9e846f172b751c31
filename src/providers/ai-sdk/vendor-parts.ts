import type { AssistantMessage, Content, ContentPart, ToolCall, VendorCall } from '../../core/contracts/index.ts';
import type { GrowingText } from '../../core/journal/index.ts';
import { digestOf, originIn, originMetadata } from '../model-origin.ts';
import { isJsonObject } from '../openai-wire/wire-errors.ts';
import type { SdkFile, SdkSource, SdkToolCall, SdkToolResult, VendorData } from './sdk-model.ts';

/**
 * One part of an answer, in the order in which the vendor gave them. Texts are not repeated: `length` counts characters of the message's
 * content, or of its reasoning; `index` counts its calls, or the parts of its content other than text.
 */
export type VendorPart = { readonly data?: VendorData } & (
  | { readonly type: 'text'; readonly length: number }
  | { readonly type: 'reasoning'; readonly length: number }
  | { readonly type: 'vendor-text'; readonly text: string }
  | { readonly type: 'call'; readonly index: number }
  | { readonly type: 'media'; readonly index: number }
  | { readonly type: 'vendor-call'; readonly id: string; readonly name: string; readonly input: string }
  | {
      readonly type: 'vendor-result';
      readonly id: string;
      readonly name: string;
      readonly result: unknown;
      readonly failed?: true;
    }
  | { readonly type: 'custom'; readonly kind: string }
);

/** How an answer was composed, kept in its message's metadata under {@link vendorPartsName}, so that it survives the journal. */
export interface VendorParts {
  /** The AI SDK's name of the provider that gave it, e.g. `anthropic.messages`: the form of its data. */
  readonly provider: string;
  readonly parts: readonly VendorPart[];
  /** Of the text and of the reasoning: what was changed since, e.g. redacted, no longer fits its signatures. */
  readonly digests: { readonly text: string; readonly reasoning: string };
}

/** The member of a message's metadata that holds its {@link VendorParts}. */
const vendorPartsName = 'aiSdk';

/** Who gave an answer, or is asked for one. */
export interface PartsOrigin {
  /** The AI SDK's name of the provider. */
  readonly provider: string;
  /** Of `originOf`: its server and its family of models. */
  readonly origin: string;
}

/** The parts of a message that this origin gave; `undefined` where it gave none, or where they are not of this form. */
export function vendorPartsOf(message: AssistantMessage, { provider, origin }: PartsOrigin): VendorParts | undefined {
  const kept = message.metadata?.[vendorPartsName];
  if (!isVendorParts(kept) || kept.provider !== provider) return undefined;
  const known = originIn(message);
  return known === undefined || known === origin ? kept : undefined;
}

/** Metadata of messages may come from anywhere. */
function isVendorParts(value: unknown): value is VendorParts {
  if (!isJsonObject(value) || typeof value['provider'] !== 'string' || !isJsonObject(value['digests'])) return false;
  return Array.isArray(value['parts']) && value['parts'].every(isVendorPart);
}

function isVendorPart(part: unknown): part is VendorPart {
  if (!isJsonObject(part) || (part['data'] !== undefined && !isVendorData(part['data']))) return false;
  switch (part['type']) {
    case 'text':
    case 'reasoning':
      return isCount(part['length']);
    case 'call':
    case 'media':
      return isCount(part['index']);
    case 'vendor-text':
      return isText(part['text']);
    case 'vendor-call':
      return isText(part['id']) && isText(part['name']) && isText(part['input']);
    case 'vendor-result':
      return isText(part['id']) && isText(part['name']) && part['result'] !== undefined;
    case 'custom':
      return isText(part['kind']);
    default:
      return false;
  }
}

/** An object of objects, as the AI SDK has its `providerOptions`. */
export function isVendorData(value: unknown): value is VendorData {
  return isJsonObject(value) && Object.values(value).every(isJsonObject);
}

/** Both, vendor by vendor; the second wins. */
export function mergedData(first: VendorData | undefined, second: VendorData | undefined): VendorData | undefined {
  if (first === undefined || second === undefined) return second ?? first;
  const both = { ...first };
  for (const [vendor, members] of Object.entries(second)) both[vendor] = { ...both[vendor], ...members };
  return both;
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

function isText(value: unknown): boolean {
  return typeof value === 'string';
}

/** Text or reasoning received so far; or text for the vendor itself, which is not part of the answer. */
export interface TextBlock {
  readonly type: 'text' | 'reasoning' | 'vendor-text';
  readonly text: GrowingText;
  data: VendorData | undefined;
}

/** A call for us to run, as far as it came. */
export interface CallBlock {
  readonly type: 'call';
  /** Among the calls of the answer, from 0. */
  readonly index: number;
  readonly id: string;
  readonly name: string;
  arguments: string;
  data: VendorData | undefined;
}

/** A part of an answer, in the order in which the vendor gave them. */
export type AnswerBlock =
  | TextBlock
  | CallBlock
  | { readonly type: 'media'; readonly part: SdkFile; readonly data: VendorData | undefined }
  | { readonly type: 'vendor-call'; readonly part: SdkToolCall; readonly data: VendorData | undefined }
  | { readonly type: 'vendor-result'; readonly part: SdkToolResult; readonly data: VendorData | undefined }
  | { readonly type: 'custom'; readonly kind: string; readonly data: VendorData | undefined };

interface AnswerOrigin extends PartsOrigin {
  readonly sources: readonly SdkSource[];
}

/**
 * The message of the parts of an answer: its texts joined, then files, calls and reasoning. Other state that the vendor expects back is kept in the
 * metadata, with sources under `sources` and tools that ran at the vendor under `vendorCalls` there; an answer of texts and calls alone has none.
 */
export function messageOfBlocks(
  all: readonly AnswerBlock[],
  { provider, origin, sources }: AnswerOrigin,
): AssistantMessage {
  const blocks = all.filter((block) => !isEmpty(block));
  const text = textOfBlocks(blocks, 'text');
  const reasoning = textOfBlocks(blocks, 'reasoning');
  const media = blocks.flatMap((block) => (block.type === 'media' ? [mediaPart(block.part)] : []));
  const toolCalls = blocks.flatMap((block) => (block.type === 'call' ? [toolCall(block)] : []));
  const vendorCalls = vendorCallsOf(blocks);
  const metadata = {
    ...(isPlain(blocks) && toolCalls.length === 0 ? {} : originMetadata(origin)),
    ...(isPlain(blocks)
      ? {}
      : {
          [vendorPartsName]: {
            provider,
            parts: vendorParts(blocks),
            digests: { text: digestOf(text), reasoning: digestOf(reasoning) },
          },
        }),
    ...(sources.length === 0 ? {} : { sources: asJson(sources) }),
    ...(vendorCalls.length === 0 ? {} : { vendorCalls }),
  };
  return {
    role: 'assistant',
    content: contentOf(text, media, toolCalls.length > 0),
    ...(toolCalls.length === 0 ? {} : { toolCalls }),
    ...(reasoning === '' ? {} : { reasoning }),
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
  };
}

function vendorCallsOf(blocks: readonly AnswerBlock[]): readonly VendorCall[] {
  const failed = new Set(
    blocks.flatMap((block) =>
      block.type === 'vendor-result' && block.part.isError === true ? [block.part.toolCallId] : [],
    ),
  );
  return blocks.flatMap((block) => {
    if (block.type !== 'vendor-call') return [];
    const { toolCallId: id, toolName: name, input } = block.part;
    return [{ id, name, arguments: input, ...(failed.has(id) && { failed: true as const }) }];
  });
}

function isEmpty(block: AnswerBlock): boolean {
  return (block.type === 'text' || block.type === 'reasoning') && block.text.isEmpty && block.data === undefined;
}

/** Whether the message alone says all there is to say of the answer. */
function isPlain(blocks: readonly AnswerBlock[]): boolean {
  return blocks.every(({ type, data }) => data === undefined && (type === 'text' || type === 'call'));
}

function textOfBlocks(blocks: readonly AnswerBlock[], type: 'text' | 'reasoning'): string {
  return blocks.map((block) => (block.type === type ? block.text.toString() : '')).join('');
}

function contentOf(text: string, media: readonly ContentPart[], hasCalls: boolean): Content | null {
  if (media.length > 0) return text === '' ? media : [{ type: 'text', text }, ...media];
  return text === '' && hasCalls ? null : text;
}

function toolCall({ id, name, arguments: text }: { id: string; name: string; arguments: string }): ToolCall {
  return { id, type: 'function', function: { name, arguments: text } };
}

function mediaPart({ mediaType, data }: SdkFile): ContentPart {
  const url = data instanceof URL ? data.href : `data:${mediaType};base64,${base64Of(data)}`;
  return mediaType.startsWith('image/')
    ? { type: 'image_url', image_url: { url } }
    : { type: 'file', file: { file_data: url } };
}

function base64Of(data: string | Uint8Array): string {
  return typeof data === 'string' ? data : Buffer.from(data).toString('base64');
}

function vendorParts(blocks: readonly AnswerBlock[]): readonly VendorPart[] {
  const next = { call: 0, media: 0 };
  return blocks.map((block) => ({
    ...vendorPart(block, next),
    ...(block.data === undefined ? {} : { data: asJson(block.data) }),
  }));
}

function vendorPart(block: AnswerBlock, next: { call: number; media: number }): VendorPart {
  switch (block.type) {
    case 'text':
    case 'reasoning':
      return { type: block.type, length: block.text.length };
    case 'vendor-text':
      return { type: block.type, text: block.text.toString() };
    case 'call':
    case 'media':
      return { type: block.type, index: next[block.type]++ };
    case 'vendor-call': {
      const { toolCallId: id, toolName: name, input } = block.part;
      return { type: 'vendor-call', id, name, input };
    }
    case 'vendor-result': {
      const { toolCallId: id, toolName: name, result, isError } = block.part;
      const failed = isError === true ? { failed: true as const } : {};
      return { type: 'vendor-result', id, name, result: asJson(result), ...failed };
    }
    case 'custom':
      return { type: 'custom', kind: block.kind };
  }
}

/** As the journal gives it back: without members that are `undefined`. */
function asJson<T>(value: T): T {
  return JSON.parse(JSON.stringify(value));
}

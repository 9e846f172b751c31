import type { LanguageModelV3File, LanguageModelV3Source } from '@ai-sdk/provider';
import type { AssistantMessage, Content, ContentPart, ToolCall } from '../../core/contracts/index.ts';
import type { AnswerBlock } from './answer-blocks.ts';
import { digestOf, type VendorPart, vendorPartsName } from './vendor-parts.ts';

export interface AnswerOrigin {
  /** The AI SDK's name of the provider. */
  readonly provider: string;
  readonly sources: readonly LanguageModelV3Source[];
}

/**
 * The message of the parts of an answer: its texts joined, then files, calls and reasoning. Other state that the vendor expects back is kept in the
 * metadata, and sources under `sources` there; an answer of texts and calls alone has none.
 */
export function messageOfBlocks(all: readonly AnswerBlock[], { provider, sources }: AnswerOrigin): AssistantMessage {
  const blocks = all.filter((block) => !isEmpty(block));
  const text = textOfBlocks(blocks, 'text');
  const reasoning = textOfBlocks(blocks, 'reasoning');
  const media = blocks.flatMap((block) => (block.type === 'media' ? [mediaPart(block.part)] : []));
  const toolCalls = blocks.flatMap((block) => (block.type === 'call' ? [toolCall(block)] : []));
  const metadata = {
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
  };
  return {
    role: 'assistant',
    content: contentOf(text, media, toolCalls.length > 0),
    ...(toolCalls.length === 0 ? {} : { toolCalls }),
    ...(reasoning === '' ? {} : { reasoning }),
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
  };
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

function mediaPart({ mediaType, data }: LanguageModelV3File): ContentPart {
  const base64 = typeof data === 'string' ? data : Buffer.from(data).toString('base64');
  const url = `data:${mediaType};base64,${base64}`;
  return mediaType.startsWith('image/')
    ? { type: 'image_url', image_url: { url } }
    : { type: 'file', file: { file_data: url } };
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
  }
}

/** As the journal gives it back: without members that are `undefined`. */
function asJson<T>(value: T): T {
  return JSON.parse(JSON.stringify(value));
}

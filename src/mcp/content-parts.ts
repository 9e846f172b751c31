import type { CallToolResult, ContentBlock, GetPromptResult, ReadResourceResult } from '@modelcontextprotocol/client';
import type { Content, ContentPart, TextPart } from '../core/contracts/index.ts';

/** What the model reads of a tool's result: one text where there is nothing else, else its parts in their order. */
export function contentOf({ content, structuredContent }: CallToolResult): Content {
  const parts = content.map(partOf);
  const unsaid = structuredContent !== undefined && !parts.some(({ type }) => type === 'text');
  return joined(unsaid ? [textPart(JSON.stringify(structuredContent)), ...parts] : parts);
}

/** What the model reads of a resource. */
export function contentOfResource({ contents }: ReadResourceResult): Content {
  return joined(contents.map(resourcePart));
}

/** The messages of a prompt, each after a line with its role. */
export function contentOfPrompt({ messages }: GetPromptResult): Content {
  return joined(messages.flatMap(({ role, content }) => [textPart(`${role}:`), partOf(content)]));
}

/** Images as images, audio and other bytes as files, a link as text that names it. */
export function partOf(block: ContentBlock): ContentPart {
  switch (block.type) {
    case 'text':
      return textPart(block.text);
    case 'image':
      return imagePart(block.mimeType, block.data);
    case 'audio':
      return filePart(`audio.${endingOf(block.mimeType)}`, block.mimeType, block.data);
    case 'resource':
      return resourcePart(block.resource);
    case 'resource_link': {
      const { uri, name, mimeType, description } = block;
      return textPart(JSON.stringify({ resource: uri, name, mimeType, description }));
    }
  }
}

type Resource = ReadResourceResult['contents'][number];

function resourcePart(resource: Resource): ContentPart {
  if ('text' in resource) return textPart(`${resource.uri}:\n${resource.text}`);
  const { uri, mimeType = 'application/octet-stream', blob } = resource;
  if (mimeType.startsWith('image/')) return imagePart(mimeType, blob);
  if (mimeType.startsWith('text/')) return textPart(`${uri}:\n${Buffer.from(blob, 'base64').toString('utf8')}`);
  return filePart(fileNameOf(uri), mimeType, blob);
}

function textPart(text: string): TextPart {
  return { type: 'text', text };
}

function imagePart(mimeType: string, data: string): ContentPart {
  return { type: 'image_url', image_url: { url: `data:${mimeType};base64,${data}` } };
}

function filePart(filename: string, mimeType: string, data: string): ContentPart {
  return { type: 'file', file: { filename, file_data: `data:${mimeType};base64,${data}` } };
}

function endingOf(mimeType: string): string {
  return /^[^/]+\/(?:x-)?([\w-]+)/.exec(mimeType)?.[1] ?? 'bin';
}

function fileNameOf(uri: string): string {
  return uri.split(/[?#]/, 1)[0]?.split('/').filter(Boolean).at(-1) ?? 'resource';
}

function joined(parts: readonly ContentPart[]): Content {
  const texts = parts.filter((part): part is TextPart => part.type === 'text');
  return texts.length === parts.length ? texts.map(({ text }) => text).join('\n') : parts;
}

/** The same content, each text of it as `change` gives it. */
export function withTexts(content: Content, change: (text: string) => string): Content {
  if (typeof content === 'string') return change(content);
  return content.map((part) => (part.type === 'text' ? { ...part, text: change(part.text) } : part));
}

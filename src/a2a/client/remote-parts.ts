import { Part } from '@a2a-js/sdk';
import { AgentLoopError, type Content, type ContentPart } from '../../core/contracts/index.ts';

/** A part as the protocol's JSON has it: plain, so that it can stand in a journal. */
export type PartJson = Readonly<Record<string, unknown>>;

/** Errors: `INVALID_INPUT` for a file that only the vendor of a model has. */
export function partsOf(content: Content): readonly PartJson[] {
  return typeof content === 'string' ? [{ text: content }] : content.map(partOf);
}

function partOf(part: ContentPart): PartJson {
  if (part.type === 'text') return { text: part.text };
  if (part.type === 'image_url') return fileOf(part.image_url.url);
  const { file_data: data, filename } = part.file;
  if (data === undefined) {
    const message = 'A file that is known by its file_id cannot be sent to a remote agent; give it as file_data.';
    throw new AgentLoopError('INVALID_INPUT', message);
  }
  return { ...fileOf(data), ...(filename !== undefined && { filename }) };
}

function fileOf(url: string): PartJson {
  const [, mediaType, raw] = /^data:([^;,]*);base64,(.*)$/s.exec(url) ?? [];
  return raw === undefined ? { url } : { raw, mediaType };
}

/** An answer to a question of the remote server: a string as a text part, anything else as a data part. */
export function partOfAnswer(answer: unknown): PartJson {
  return typeof answer === 'string' ? { text: answer } : { data: answer };
}

/**
 * What a model, or a person, reads of parts. Those of one artifact may be pieces of one text, so nothing is put between texts; data is
 * shown as JSON, a file as its name.
 */
export function textOfParts(parts: readonly Part[]): string {
  let text = '';
  for (const { content, filename, mediaType } of parts) {
    if (content?.$case === 'text') text += content.value;
    else if (content)
      text += `${text === '' || text.endsWith('\n') ? '' : '\n'}${shownPart(content, filename, mediaType)}`;
  }
  return text;
}

type OtherContent = Exclude<NonNullable<Part['content']>, { $case: 'text' }>;

function shownPart(content: OtherContent, filename: string, mediaType: string): string {
  if (content.$case === 'data') return JSON.stringify(content.value) ?? 'null';
  const name = filename || mediaType || 'file';
  if (content.$case === 'url') return `[${name}](${content.value})`;
  return `[${name}${filename && mediaType ? `, ${mediaType}` : ''}, ${content.value.length} bytes]`;
}

export function partFromJson(json: PartJson): Part {
  return Part.fromJSON(json);
}

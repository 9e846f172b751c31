/** A piece of text. */
export interface TextPart {
  readonly type: 'text';
  readonly text: string;
}

/** A picture, by address: `https:` or `data:` (base64). */
export interface ImagePart {
  readonly type: 'image_url';
  readonly image_url: { readonly url: string; readonly detail?: 'auto' | 'low' | 'high' };
}

/** A file, by its content (base64 `data:` address) or by an id that the model's vendor gave it. */
export interface FilePart {
  readonly type: 'file';
  readonly file: { readonly filename?: string; readonly file_data?: string; readonly file_id?: string };
}

export type ContentPart = TextPart | ImagePart | FilePart;

/** A text, or a list of parts. */
export type Content = string | readonly ContentPart[];

/** A call that the model asks for. `arguments` is the JSON text as the model wrote it. */
export interface ToolCall {
  readonly id: string;
  readonly type: 'function';
  readonly function: { readonly name: string; readonly arguments: string };
}

interface MessageBase {
  readonly id?: string;
  /** ISO 8601. */
  readonly createdAt?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

export interface SystemMessage extends MessageBase {
  readonly role: 'system' | 'developer';
  readonly content: Content;
}

export interface UserMessage extends MessageBase {
  readonly role: 'user';
  readonly content: Content;
}

export interface AssistantMessage extends MessageBase {
  readonly role: 'assistant';
  /** `null` where the model only asked for tools. */
  readonly content: Content | null;
  readonly toolCalls?: readonly ToolCall[];
  /** The model's reasoning, where it shows it. */
  readonly reasoning?: string;
}

/** The result of one call; `toolCallId` is the `id` of the call in the assistant message before it. */
export interface ToolMessage extends MessageBase {
  readonly role: 'tool';
  readonly toolCallId: string;
  readonly content: Content;
  /** `error` where the call failed or was refused. Absent means `ok`. */
  readonly status?: 'ok' | 'error';
}

export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage;

/** The text of a content: its text parts joined. */
export function textOf(content: Content | null | undefined): string {
  if (content === null || content === undefined) return '';
  if (typeof content === 'string') return content;
  return content
    .filter((part): part is TextPart => part.type === 'text')
    .map((part) => part.text)
    .join('\n');
}

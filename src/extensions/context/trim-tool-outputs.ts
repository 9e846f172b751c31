import {
  type AssistantMessage,
  type Content,
  type ContentPart,
  type Message,
  splitsPair,
  type ToolCall,
  type ToolMessage,
  textOf,
} from '../../core/contracts/index.ts';

export interface TrimOptions {
  /** How many of the newest results stay whole. Unanswered ones always do. */
  readonly keepLast: number;
  /** A longer result is truncated to about this many characters, including the note. */
  readonly maxChars: number;
  /** Returns the reference for reading the whole output again; the note contains it. Called once per truncated result. */
  readonly reference?: (call: ToolCall, result: ToolMessage) => string | undefined;
}

/** The member of `metadata` that marks a truncated result: its original number of characters. */
const trimmedFrom = 'trimmedFrom';

const shortForms = new WeakMap<TrimOptions, WeakMap<ToolMessage, ToolMessage>>();

/**
 * A view of the messages in which old large tool outputs are truncated to their beginning and end, with a note in between of
 * the number of omitted characters and the reference to read them. Images and files of truncated outputs are omitted.
 * Messages before `from` are not scanned.
 *
 * All other messages are the same objects; if nothing is truncated, so is the array. With the same options object a
 * result always has the same truncated form, while both live, and a truncated form is not truncated again. Linear in the scanned messages.
 */
export function trimToolOutputs(messages: readonly Message[], options: TrimOptions, from = 0): readonly Message[] {
  return trimBetween(messages, options, { from, end: oldResultsEnd(messages, options.keepLast) });
}

/** As `trimToolOutputs`, for results between two indexes, neither of which is between a call and its results. */
export function trimBetween(
  messages: readonly Message[],
  options: TrimOptions,
  { from, end }: { readonly from: number; readonly end: number },
): readonly Message[] {
  let view: Message[] | undefined;
  let asking: AssistantMessage | undefined;
  for (let index = from; index < end; index++) {
    const message = messages[index];
    if (message?.role === 'assistant') asking = message;
    if (message?.role !== 'tool' || !isLarge(message, options.maxChars)) continue;
    const call = asking?.toolCalls?.find(({ id }) => id === message.toolCallId);
    if (!call) continue;
    view ??= messages.slice();
    view[index] = shortForm(message, call, options);
  }
  return view ?? messages;
}

/** The index of the first result that `trimToolOutputs` truncates once it is old; -1: there is none. */
export function firstLargeOutput(messages: readonly Message[], { maxChars }: Pick<TrimOptions, 'maxChars'>): number {
  return messages.findIndex((message) => message.role === 'tool' && isLarge(message, maxChars));
}

/** Results before this index may be truncated: they are answered, and not among the newest. */
export function oldResultsEnd(messages: readonly Message[], keepLast: number): number {
  let end = messages.findLastIndex(({ role }) => role === 'assistant');
  let left = keepLast - messages.slice(end + 1).filter(({ role }) => role === 'tool').length;
  while (left > 0 && end > 0) {
    end -= 1;
    if (messages[end]?.role === 'tool') left -= 1;
  }
  return end;
}

export function isLarge(message: ToolMessage, maxChars: number): boolean {
  return message.metadata?.[trimmedFrom] === undefined && sizeOf(message.content) > maxChars;
}

function shortForm(message: ToolMessage, call: ToolCall, options: TrimOptions): ToolMessage {
  const known = shortForms.get(options) ?? new WeakMap<ToolMessage, ToolMessage>();
  shortForms.set(options, known);
  const made = known.get(message) ?? trimmed(message, options.reference?.(call, message), options.maxChars);
  known.set(message, made);
  return made;
}

function trimmed(message: ToolMessage, reference: string | undefined, maxChars: number): ToolMessage {
  const size = sizeOf(message.content);
  const attachments = typeof message.content === 'string' ? 0 : message.content.filter(isAttachment).length;
  const content = headAndTail(textOf(message.content), maxChars, (leftOut) => note(leftOut, attachments, reference));
  return { ...message, content, metadata: { ...message.metadata, [trimmedFrom]: size } };
}

function note(characters: number, attachments: number, reference: string | undefined): string {
  const what = [
    ...(characters > 0 ? [`${characters} characters`] : []),
    ...(attachments > 0 ? [`${attachments} ${attachments === 1 ? 'attachment' : 'attachments'}`] : []),
  ].join(' and ');
  const where = reference === undefined ? '' : `; the full output is ${reference}`;
  return `[… ${what} left out${where} …]`;
}

function sizeOf(content: Content): number {
  return typeof content === 'string' ? content.length : content.reduce((size, part) => size + partSize(part), 0);
}

function partSize(part: ContentPart): number {
  if (part.type === 'text') return part.text.length;
  if (part.type === 'image_url') return part.image_url.url.length;
  return part.file.file_data?.length ?? 0;
}

function isAttachment(part: ContentPart): boolean {
  return part.type !== 'text';
}

/**
 * Truncates a string to its beginning and its end, with a note between them on separate lines; `noteOf` receives the number of
 * omitted characters. The result has at most `maxChars` characters, or is the note alone if that is longer. Surrogate
 * pairs stay whole. A string that fits beside the note is kept, followed by the note.
 */
export function headAndTail(text: string, maxChars: number, noteOf: (leftOut: number) => string): string {
  const room = maxChars - noteOf(text.length).length - 2;
  if (text.length === 0 || room < 2) return noteOf(text.length);
  if (text.length <= room) return `${text}\n${noteOf(0)}`;
  const half = Math.floor(room / 2);
  const headEnd = splitsPair(text, half) ? half - 1 : half;
  const tailStart = splitsPair(text, text.length - half) ? text.length - half + 1 : text.length - half;
  return `${text.slice(0, headEnd)}\n${noteOf(tailStart - headEnd)}\n${text.slice(tailStart)}`;
}

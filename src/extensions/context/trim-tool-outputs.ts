import {
  type AssistantMessage,
  type Content,
  type ContentPart,
  type Message,
  type ToolCall,
  type ToolMessage,
  textOf,
} from '../../core/contracts/index.ts';

export interface TrimOptions {
  /** How many of the newest results stay whole. Those that the model has not answered yet stay in any case. */
  readonly keepLast: number;
  /** A result of more characters than this is shortened to about as many, the note in it included. */
  readonly maxChars: number;
  /** By what the whole output can be read again; it is named in the note. Asked once for each shortened result. */
  readonly reference?: (call: ToolCall, result: ToolMessage) => string | undefined;
}

/** The member of `metadata` that marks a shortened result: the number of characters it had. */
const trimmedFrom = 'trimmedFrom';

const shortForms = new WeakMap<TrimOptions, WeakMap<ToolMessage, ToolMessage>>();

/**
 * A view of the messages in which old large tool outputs are short: their beginning and end, and between them a note of
 * how much is left out and by which reference it can be read again. Images and files are left out of what is shortened.
 * Messages in front of `from` are not looked at.
 *
 * All other messages are the same objects; where nothing is shortened, so is the array. Under the same options object a
 * result always has the same short form, for as long as both live, and a short form is not shortened again. Linear in what is looked at.
 */
export function trimToolOutputs(messages: readonly Message[], options: TrimOptions, from = 0): readonly Message[] {
  return trimBetween(messages, options, { from, end: oldResultsEnd(messages, options.keepLast) });
}

/** As `trimToolOutputs`, for results from one place to another, neither of which stands between a call and its results. */
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

/** Where the first result stands that `trimToolOutputs` shortens once it is old; -1: there is none. */
export function firstLargeOutput(messages: readonly Message[], { maxChars }: Pick<TrimOptions, 'maxChars'>): number {
  return messages.findIndex((message) => message.role === 'tool' && isLarge(message, maxChars));
}

/** Results before this index may be shortened: they are answered, and not among the newest. */
export function oldResultsEnd(messages: readonly Message[], keepLast: number): number {
  let end = messages.findLastIndex(({ role }) => role === 'assistant');
  let left = keepLast - messages.slice(end + 1).filter(({ role }) => role === 'tool').length;
  while (left > 0 && end > 0) {
    end -= 1;
    if (messages[end]?.role === 'tool') left -= 1;
  }
  return end;
}

function isLarge(message: ToolMessage, maxChars: number): boolean {
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
 * Truncates a string to its beginning and its end, with a note between them on lines of its own; `noteOf` receives how many
 * characters are left out. The whole is at most `maxChars` characters, or the note alone where that is more. Surrogate
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

function splitsPair(text: string, at: number): boolean {
  const [before, after] = [text.charCodeAt(at - 1), text.charCodeAt(at)];
  return before >= 0xd800 && before <= 0xdbff && after >= 0xdc00 && after <= 0xdfff;
}

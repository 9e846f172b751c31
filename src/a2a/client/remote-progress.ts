import { createHash } from 'node:crypto';
import { Part } from '@a2a-js/sdk';
import {
  AgentLoopError,
  type Content,
  type ContentPart,
  type Message,
  parsedJson,
  textOf,
} from '../../core/contracts/index.ts';

/** What a call of the other side came to, as it stands in the history. */
export interface RemoteReference {
  /** Absent where it answered at once, without a task. */
  readonly taskId?: string;
  readonly contextId?: string;
  /** The id of the message that was sent: the hash of the call's idempotency key, see `messageIdOf`. */
  readonly messageId?: string;
  /** When it was sent, in milliseconds since 1970: `taskTimeoutMs` counts from here. */
  readonly sentAt?: number;
  /** The server, without credentials, so that a reader of the journal alone knows where the task is. */
  readonly url?: string;
  /** The answer, where there is no task. */
  readonly text?: string;
  /** The status that the message replied to: it is over, also where the other side still shows it. */
  readonly answered?: string;
}

/** What is to be done next. */
type RemoteStep =
  | { readonly type: 'send'; readonly parts: readonly PartJson[]; readonly contextId: string | undefined }
  | { readonly type: 'follow'; readonly reference: RemoteReference };

export const sendName = 'send_message';
export const replyName = 'reply';

/** The names of the tools whose results are references. */
const ownTools: ReadonlySet<string> = new Set([sendName, replyName]);

/** The id of the message of a call: the same in every attempt. It tells the other side nothing of ours. */
export function messageIdOf(idempotencyKey: string): string {
  return createHash('sha256').update(idempotencyKey).digest('hex').slice(0, 32);
}

/**
 * Where a conversation with the other side stands is what the history holds: what was said since the last message that went there is to be
 * sent, in the remote context of that; else the task of that message is to be followed. `address`: the server; references to another are
 * those of another remote agent.
 */
export function nextStep(messages: readonly Message[], address: string): RemoteStep {
  const calls = ownCalls(messages, address);
  const last = calls.at(-1);
  const reference = calls.findLast((call) => call.reference)?.reference;
  const said = messages.slice((last?.index ?? -1) + 1);
  const hasUnsent = said.some(({ role }) => role === 'user');
  if (!hasUnsent && reference) return { type: 'follow', reference };
  const parts = partsSaid(said, last !== undefined);
  return { type: 'send', parts, contextId: reference?.contextId };
}

/**
 * The user's messages, and in a team the answers of other agents between them. The first answer after a message that went to the other side
 * is its own. Tool calls of other agents and their results stay here.
 */
function partsSaid(said: readonly Message[], afterOwn: boolean): readonly PartJson[] {
  let isOwn = afterOwn;
  return said.flatMap((message) => {
    if (message.role === 'user') {
      isOwn = false;
      return partsOf(message.content);
    }
    if (message.role !== 'assistant' || message.toolCalls?.length) return [];
    const text = textOf(message.content);
    if (isOwn || text === '') {
      isOwn = false;
      return [];
    }
    return [{ text: `(Another agent answered: ${text})` }];
  });
}

/** The task, if any, that the last message of the history to this server went to. */
export function lastReference(messages: readonly Message[], address: string): RemoteReference | undefined {
  return ownCalls(messages, address).findLast(({ reference }) => reference)?.reference;
}

interface OwnCall {
  /** Of its result. */
  readonly index: number;
  /** Absent where it failed. */
  readonly reference: RemoteReference | undefined;
}

/** The calls with which something was sent to this server. A result of another tool is never a reference, whatever it says. */
function ownCalls(messages: readonly Message[], address: string): readonly OwnCall[] {
  const callIds = new Set<string>();
  return messages.flatMap((message, index): readonly OwnCall[] => {
    if (message.role === 'assistant') {
      for (const { id, function: called } of message.toolCalls ?? []) if (ownTools.has(called.name)) callIds.add(id);
    }
    if (message.role !== 'tool' || !callIds.has(message.toolCallId)) return [];
    if (message.status === 'error') return [{ index, reference: undefined }];
    const reference = referenceOf(textOf(message.content));
    const isOther = reference?.url !== undefined && reference.url !== address;
    return isOther ? [] : [{ index, reference }];
  });
}

function referenceOf(text: string): RemoteReference | undefined {
  try {
    const value: unknown = parsedJson(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** A part as the protocol's JSON has it: plain, so that it can stand in a journal. */
export type PartJson = Readonly<Record<string, unknown>>;

/** Errors: `INVALID_INPUT` for a file that only the vendor of a model has. */
function partsOf(content: Content): readonly PartJson[] {
  return typeof content === 'string' ? [{ text: content }] : content.map(partOf);
}

function partOf(part: ContentPart): PartJson {
  if (part.type === 'text') return { text: part.text };
  if (part.type === 'image_url') return fileOf(part.image_url.url);
  const { file_data: data, filename } = part.file;
  if (data === undefined) {
    const message = 'A file with a file_id cannot be sent to a remote agent; send it as file_data.';
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

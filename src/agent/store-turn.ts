import {
  type AgentLoopError,
  type Content,
  type MaybePromise,
  type Message,
  maxTurnLength,
  type ToolCall,
} from '../core/contracts/index.ts';
import { storeError } from '../core/journal/index.ts';
import { shortContent } from '../extensions/context/shorten-messages.ts';

/** The messages of an ended turn, to be saved. */
export interface EndedTurn {
  readonly messages: readonly Message[];
  /** When they were created. ISO 8601. */
  readonly createdAt?: readonly string[];
  /** The agent that answers next, if this turn was handed to it. */
  readonly agentId?: string;
}

/** How a turn was stored. */
export interface StoredTurn {
  /** Whether each of its messages has its position in the context. */
  readonly hasAllMessages: boolean;
  /** Why the messages are not stored as they were; absent if they are. */
  readonly refusal?: AgentLoopError;
}

/** Room for the stamp that a store adds to a message. Characters. */
const stampLength = 256;
/** Forms are not divided any further below this size. Characters. */
const leastLength = 8 * 1024;

/**
 * Stores a turn in a form that its store accepts: as it is, else as JSON with its largest contents shortened, each time to a quarter, else
 * without messages. A store that refuses a turn refuses it each time, and every later turn of the context would end with that error.
 * Rejects with the first refusal if the store accepts no form, and with an error that another attempt may not have.
 */
export async function storeTurn(
  append: (turn: EndedTurn) => MaybePromise<unknown>,
  ended: EndedTurn,
): Promise<StoredTurn> {
  let refusal: AgentLoopError | undefined;
  for (const form of formsOf(ended)) {
    try {
      await append(form);
      return { hasAllMessages: form.messages.length === ended.messages.length, ...(refusal && { refusal }) };
    } catch (thrown) {
      if (!isRefusal(thrown)) throw thrown;
      refusal ??= storeError(thrown);
    }
  }
  throw refusal;
}

/** Whether a store would return the same error for the same value. */
export function isRefusal(thrown: unknown): boolean {
  const { code, retryable } = storeError(thrown);
  return !retryable && (code === 'INVALID_INPUT' || code === 'FULL' || code === 'UNAVAILABLE');
}

/** The forms of a turn for its store, the fullest first. */
function* formsOf(ended: EndedTurn): Generator<EndedTurn> {
  yield ended;
  if (ended.messages.length === 0) return;
  const room = maxTurnLength - stampLength * ended.messages.length;
  yield { ...ended, messages: fittingMessages(ended.messages.map(jsonMessage), room) };
  const texts = ended.messages.map(textMessage);
  for (let most = Math.min(room, lengthOf(texts)); most >= leastLength; most = Math.floor(most / 4)) {
    yield { ...ended, messages: fittingMessages(texts, most) };
  }
  yield { ...ended, messages: fittingMessages(texts, 0) };
  yield { messages: [] };
}

/** The JSON form of a message; of one that has none, its text. */
function jsonMessage(message: Message): Message {
  return lengthOf(message) === Number.POSITIVE_INFINITY ? textMessage(message) : JSON.parse(JSON.stringify(message));
}

function textMessage(message: Message): Message {
  return shortened(message, Number.POSITIVE_INFINITY);
}

/** Contents that the next turn needs least: those that a tool can return again. */
function isOfTool({ role, ...rest }: Message): boolean {
  return role === 'tool' || (role === 'assistant' && 'toolCalls' in rest);
}

/**
 * The messages with the largest of them shortened, until their JSON has at most so many characters: those of tools first, then all. Their number,
 * order and calls stay. If even the shortest form has more, that is the result. Valid messages as JSON.
 */
export function fittingMessages(messages: readonly Message[], maxLength: number): readonly Message[] {
  const lengths = messages.map((message) => lengthOf(message));
  if (sum(lengths) <= maxLength) return messages;
  for (const isCut of [isOfTool, () => true]) {
    const shorter = fitting({ messages, lengths, maxLength, isCut });
    if (shorter) return shorter;
  }
  return messages.map((message) => shortened(message, 0));
}

interface Fitting {
  readonly messages: readonly Message[];
  /** The lengths of their JSON. */
  readonly lengths: readonly number[];
  readonly maxLength: number;
  readonly isCut: (message: Message) => boolean;
}

/** Below that a content is not worth keeping. Characters. */
const leastContent = 256;

function fitting({ messages, lengths, maxLength, isCut }: Fitting): readonly Message[] | undefined {
  const longest = Math.min(
    lengths.reduce((most, length) => Math.max(most, length), 0),
    maxLength,
  );
  const cut = messages.map(isCut);
  for (let most = longest; most >= leastContent; most = Math.floor(most / 2)) {
    const estimate = sum(lengths.map((length, index) => (cut[index] ? Math.min(length, most) : length)));
    if (estimate > maxLength) continue;
    const isLong = (index: number) => cut[index] === true && (lengths[index] ?? 0) > most;
    const shorter = messages.map((message, index) => (isLong(index) ? shortened(message, most) : message));
    const size = sum(shorter.map((message, index) => (isLong(index) ? lengthOf(message) : (lengths[index] ?? 0))));
    if (size <= maxLength) return shorter;
  }
  return undefined;
}

/** A message with about so many characters of content: without its reasoning, metadata, pictures and files. */
function shortened(message: Message, most: number): Message {
  const { id, createdAt } = message;
  const base = {
    ...(id !== undefined && id.length <= leastContent && { id }),
    ...(createdAt !== undefined && { createdAt }),
  };
  switch (message.role) {
    case 'system':
    case 'developer':
      return { ...base, role: message.role, content: contentOf(message.content, most) };
    case 'user': {
      const { name, content } = message;
      const hasName = name !== undefined && name.length <= leastContent;
      return { ...base, role: 'user', ...(hasName && { name }), content: contentOf(content, most) };
    }
    case 'assistant': {
      const { content, toolCalls } = message;
      const room = toolCalls ? Math.floor(most / (toolCalls.length + 1)) : most;
      const short = content === null ? null : contentOf(content, room);
      const calls = toolCalls && { toolCalls: toolCalls.map((call) => shortCall(call, room)) };
      return { ...base, role: 'assistant', content: short, ...calls };
    }
    case 'tool': {
      const { toolCallId, status, content } = message;
      return { ...base, role: 'tool', toolCallId, content: contentOf(content, most), ...(status && { status }) };
    }
  }
}

/** The text of a content, whose JSON has about so many characters. */
function contentOf(content: Content, most: number): string {
  if (typeof content === 'string' && (content === '' || lengthOf(content) <= most)) return content;
  if (most === Number.POSITIVE_INFINITY) return shortContent(content, Number.MAX_SAFE_INTEGER);
  for (let room = most; room >= leastContent; room = Math.floor(room / 2)) {
    const short = shortContent(content, room);
    if (lengthOf(short) <= most) return short;
  }
  return shortContent(content, 0);
}

/** A call keeps its arguments whole or not at all: a part of them is other arguments. */
function shortCall({ id, type, function: { name, arguments: given } }: ToolCall, most: number): ToolCall {
  const isShort = lengthOf(given) <= Math.max(most, leastContent);
  const args = isShort ? given : JSON.stringify({ note: `[… ${given.length} characters left out …]` });
  return { id, type, function: { name, arguments: args } };
}

/** The length of the JSON of a value; of one that has none, infinity. */
function lengthOf(value: unknown): number {
  try {
    return JSON.stringify(value)?.length ?? 0;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

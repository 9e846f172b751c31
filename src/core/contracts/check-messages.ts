import { AgentLoopError } from './errors.ts';
import type { ContentPart, Message } from './messages.ts';
import { shownValue } from './shown-value.ts';

const roles: ReadonlySet<unknown> = new Set<Message['role']>(['system', 'developer', 'user', 'assistant', 'tool']);
const partTypes: ReadonlySet<unknown> = new Set<ContentPart['type']>(['text', 'image_url', 'file']);
const statuses: ReadonlySet<unknown> = new Set(['ok', 'error', undefined]);

/** Checks messages that a caller gives. Errors: `INVALID_INPUT`, naming the message, the member and the cure. */
export function checkMessages(messages: readonly Message[]): void {
  if (!Array.isArray(messages)) {
    throw invalid('messages must be an array, e.g. [{ role: "user", content: "Hello" }]');
  }
  for (const [index, message] of messages.entries()) checkMessage(message, `messages[${index}]`);
}

/**
 * Checks messages that take the place of others which were checked. Those that stand where they stood, from the front or from the end, are
 * passed over: a view of a long history costs what is changed in it. Errors: as `checkMessages`.
 */
export function checkChangedMessages(messages: readonly Message[], before: readonly Message[]): void {
  if (!Array.isArray(messages)) return checkMessages(messages);
  const moved = before.length - messages.length;
  for (let index = 0; index < messages.length; index++) {
    const message = messages[index];
    if (message !== undefined && (message === before[index] || message === before[index + moved])) continue;
    checkMessage(message, `messages[${index}]`);
  }
}

function checkMessage(message: Message, at: string): void {
  if (typeof message !== 'object' || message === null || !roles.has(message.role)) {
    throw invalid(`${at} needs a role out of: ${[...roles].join(', ')}`);
  }
  if (message.content !== null || message.role !== 'assistant') checkContent(message.content, `${at}.content`);
  if (message.role === 'assistant' && message.toolCalls !== undefined) checkToolCalls(message.toolCalls, at);
  if (message.role === 'tool' && typeof message.toolCallId !== 'string') {
    throw invalid(`${at} is a tool message and needs the toolCallId of the call it answers`);
  }
  if (message.role === 'user' && message.name !== undefined && typeof message.name !== 'string') {
    throw invalid(`${at}.name must be a string, not ${shownValue(message.name)}`);
  }
  checkMembers(message, at);
}

function checkMembers(message: Message, at: string): void {
  const { id, createdAt, metadata } = message;
  if (id !== undefined && typeof id !== 'string') throw invalid(`${at}.id must be a string, not ${shownValue(id)}`);
  if (createdAt !== undefined && !(typeof createdAt === 'string' && !Number.isNaN(Date.parse(createdAt)))) {
    throw invalid(`${at}.createdAt must be a time of ISO 8601, not ${shownValue(createdAt)}`);
  }
  if (metadata !== undefined && (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata))) {
    throw invalid(`${at}.metadata must be an object, not ${shownValue(metadata)}`);
  }
  if (message.role === 'tool' && !statuses.has(message.status)) {
    throw invalid(`${at}.status must be ok or error, not ${shownValue(message.status)}`);
  }
}

/** Checks a content. Errors: `INVALID_INPUT`, naming it as `at` does. */
export function checkContent(content: unknown, at: string): void {
  if (typeof content === 'string') return;
  if (!Array.isArray(content)) {
    throw invalid(`${at} must be a string or an array of parts, not ${shownValue(content)}`);
  }
  for (const [index, part] of content.entries()) checkPart(part, `${at}[${index}]`);
}

function checkPart(part: ContentPart, at: string): void {
  const type: unknown = part?.type;
  if (!partTypes.has(type)) {
    throw invalid(`${at} needs a type out of: ${[...partTypes].join(', ')}; it is ${shownValue(type)}`);
  }
  if (part.type === 'text' && typeof part.text !== 'string') throw invalid(`${at}.text must be a string`);
  if (part.type === 'image_url' && typeof part.image_url?.url !== 'string') {
    throw invalid(`${at}.image_url.url must be an address, https: or data:`);
  }
  if (part.type === 'file' && (typeof part.file !== 'object' || part.file === null)) {
    throw invalid(`${at}.file must be an object with file_data or file_id`);
  }
}

function checkToolCalls(calls: unknown, at: string): void {
  if (!Array.isArray(calls)) throw invalid(`${at}.toolCalls must be an array, not ${shownValue(calls)}`);
  for (const [index, call] of calls.entries()) {
    if (typeof call?.id === 'string' && typeof call.function?.name === 'string') continue;
    throw invalid(`${at}.toolCalls[${index}] must be a call: { id, type: "function", function: { name, arguments } }`);
  }
}

function invalid(what: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', `${what}.`);
}

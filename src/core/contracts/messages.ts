import { AgentLoopError } from './errors.ts';
import { isObject, jsonFlaw, jsonText, maxJsonDepth, maxMessageDepth, nestsTooDeep, shownValue } from './values.ts';

/** A text part. */
export interface TextPart {
  readonly type: 'text';
  readonly text: string;
}

/** An image, by `https:` or `data:` (base64) URL. */
export interface ImagePart {
  readonly type: 'image_url';
  /** An `https:` or `data:` URL. `detail`: the resolution that the model uses; each step costs more tokens. */
  readonly image_url: { readonly url: string; readonly detail?: 'auto' | 'low' | 'high' };
}

/** A file, by its content (base64 `data:` URL) or by the vendor's file id. */
export interface FilePart {
  readonly type: 'file';
  /** The content as a `data:` URL, or the vendor's file id. */
  readonly file: { readonly filename?: string; readonly file_data?: string; readonly file_id?: string };
}

/** A part of a message: text, an image or a file. */
export type ContentPart = TextPart | ImagePart | FilePart;

/** A string, or an array of parts. */
export type Content = string | readonly ContentPart[];

/** A call that the model requests. `arguments` is the JSON text as the model generated it. */
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

/** Member of the metadata of a stored message of the role `user` that an extension wrote, or an agent that handed the turn on: `true`. */
export const addedName = 'millrace.added';

/** Instructions for the model. */
export interface SystemMessage extends MessageBase {
  readonly role: 'system' | 'developer';
  readonly content: Content;
}

/** A message of the user. */
export interface UserMessage extends MessageBase {
  readonly role: 'user';
  /** The author, if it is not the user: an agent that hands the turn to another. */
  readonly name?: string;
  readonly content: Content;
}

/** The model's answer: text, tool calls, or both. */
export interface AssistantMessage extends MessageBase {
  readonly role: 'assistant';
  /** `null` if the model only requested tools. */
  readonly content: Content | null;
  readonly toolCalls?: readonly ToolCall[];
  /** The model's reasoning, if the model exposes it. */
  readonly reasoning?: string;
}

/** The result of one call; `toolCallId` is the `id` of the call in the preceding assistant message. */
export interface ToolMessage extends MessageBase {
  readonly role: 'tool';
  readonly toolCallId: string;
  readonly content: Content;
  /** `error` if the call failed or was refused. Absent means `ok`. */
  readonly status?: 'ok' | 'error';
}

/** A message of the conversation, in the form of the engine, stores and providers. */
export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage;

/** The text of a content: its text parts concatenated. */
export function textOf(content: Content | null | undefined): string {
  if (content === null || content === undefined) return '';
  if (typeof content === 'string') return content;
  return content
    .filter((part): part is TextPart => part.type === 'text')
    .map((part) => part.text)
    .join('\n');
}

/** The content for a call without a result: the turn ended before the call finished. */
export const missingResult = 'No result: the turn ended before this call finished.';

/**
 * The same messages in a form that every model accepts: each call of an assistant message has exactly one result, in call
 * order directly after it; results without a call are dropped. Valid messages are kept as they are.
 * `missing`: the content for a call without a result.
 */
export function repairHistory(messages: readonly Message[], missing: string = missingResult): readonly Message[] {
  const repaired: Message[] = [];
  for (let index = 0; index < messages.length; index++) {
    const message = messages[index] as Message;
    if (message.role === 'tool') continue;
    repaired.push(message);
    if (message.role !== 'assistant' || !message.toolCalls) continue;
    const results = resultsAfter(messages, index);
    for (const call of message.toolCalls) {
      repaired.push(
        results.get(call.id)?.shift() ?? { role: 'tool', toolCallId: call.id, content: missing, status: 'error' },
      );
    }
  }
  return repaired;
}

/** The content for a call whose result is not sent to the model. */
const notSent = 'No result: it is not part of this request.';

/**
 * The messages of a request: unchanged if each call has its results before the next message and each result its call, else repaired.
 * Instructions may be anywhere.
 */
export function pairedMessages(messages: readonly Message[]): readonly Message[] {
  return new Pairing(messages).isWhole(messages.length) ? messages : repairHistory(messages, notSent);
}

/** Checks whether calls and results in a growing array are paired. Visits each message once while the queried lengths grow. */
export class Pairing {
  readonly #messages: readonly Message[];
  /** Calls without a result so far; `undefined` before the first call. */
  #open: Set<string> | undefined;
  #seen = 0;
  #isBroken = false;

  constructor(messages: readonly Message[]) {
    this.#messages = messages;
  }

  /** Checks the first `length` messages. Returns false if `length` is smaller than in an earlier query: that part needs a new check. */
  isWhole(length: number): boolean {
    if (length < this.#seen) return false;
    for (; this.#seen < length && !this.#isBroken; this.#seen++) {
      const message = this.#messages[this.#seen] as Message;
      // Most messages have no calls, and are no results.
      if (this.#open?.size || message.role === 'tool' || (message.role === 'assistant' && message.toolCalls))
        this.#look(message);
    }
    return !this.#isBroken && !this.#open?.size;
  }

  #look(message: Message): void {
    if (message.role === 'tool') {
      if (!this.#open?.delete(message.toolCallId)) this.#isBroken = true;
      return;
    }
    if (message.role === 'system' || message.role === 'developer') return;
    if (this.#open?.size) this.#isBroken = true;
    if (message.role !== 'assistant' || !message.toolCalls) return;
    this.#open ??= new Set();
    for (const { id } of message.toolCalls) this.#open.add(id);
    if (this.#open.size < message.toolCalls.length) this.#isBroken = true;
  }
}

/** The results between an assistant message and the next one, by call id. */
function resultsAfter(messages: readonly Message[], index: number): Map<string, ToolMessage[]> {
  const results = new Map<string, ToolMessage[]>();
  for (let next = index + 1; next < messages.length; next++) {
    const message = messages[next] as Message;
    if (message.role === 'assistant') break;
    if (message.role !== 'tool') continue;
    const found = results.get(message.toolCallId);
    if (found) found.push(message);
    else results.set(message.toolCallId, [message]);
  }
  return results;
}

const roles: ReadonlySet<unknown> = new Set<Message['role']>(['system', 'developer', 'user', 'assistant', 'tool']);
const partTypes: ReadonlySet<unknown> = new Set<ContentPart['type']>(['text', 'image_url', 'file']);
const statuses: ReadonlySet<unknown> = new Set(['ok', 'error', undefined]);

/** Messages that are JSON and cannot change any more. */
const frozen = new WeakSet<Message>();
/** Those of them that are valid. */
const valid = new WeakSet<Message>();

/** Frozen copies of messages, and the number of characters of their JSON. */
interface FrozenMessages {
  readonly messages: readonly Message[];
  readonly characters: number;
}

/** Copies messages that many turns get as the same objects: only the first one checks the copies. `undefined` if one has no JSON form. */
export function frozenCopies(given: readonly Message[]): FrozenMessages | undefined {
  const messages: Message[] = [];
  let characters = 0;
  try {
    for (const message of given) {
      const text = jsonText(message, { levels: maxMessageDepth });
      if (text === undefined) return undefined;
      const copy: Message = JSON.parse(text);
      freeze(copy);
      frozen.add(copy);
      messages.push(copy);
      characters += text.length;
    }
    return { messages, characters };
  } catch {
    return undefined;
  }
}

function freeze(value: object): void {
  Object.freeze(value);
  for (const member of Object.values(value)) if (typeof member === 'object' && member !== null) freeze(member);
}

/** The messages that are not frozen, and so may be no JSON. */
export function unfrozen(messages: readonly Message[]): readonly Message[] {
  const others: Message[] = [];
  for (const message of messages) if (!frozen.has(message)) others.push(message);
  return others;
}

/** Checks a caller's messages. Errors: `INVALID_INPUT`, naming the message, the member and the fix. */
export function checkMessages(messages: readonly Message[]): void {
  if (!Array.isArray(messages)) {
    throw invalid('messages must be an array, e.g. [{ role: "user", content: "Hello" }]');
  }
  for (const [index, message] of messages.entries()) {
    if (valid.has(message)) continue;
    checkMessage(message, `messages[${index}]`);
    if (frozen.has(message)) valid.add(message);
  }
}

/** Checks the messages of a turn: at least one. Errors: as `checkMessages`, and `INVALID_INPUT` for an empty array. */
export function checkInput(messages: readonly Message[]): void {
  checkMessages(messages);
  if (messages.length > 0) return;
  throw invalid('a turn is given at least one message, not an empty array; to continue a turn write resume(taskId)');
}

/**
 * Checks messages that replace other, valid messages. Skips the unchanged ones at the start and at the end: the cost for a view of a long
 * history depends on the changed messages only. Errors: as `checkMessages`.
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
  if (metadata !== undefined && !isObject(metadata)) {
    throw invalid(`${at}.metadata must be an object, not ${shownValue(metadata)}`);
  }
  if (metadata !== undefined && !hasJson(metadata)) {
    const flaw = jsonFlaw(metadata, `${at}.metadata`) ?? `${at}.metadata has a toJSON method that throws`;
    throw invalid(`${flaw}, so it cannot be written as JSON; pass strings, numbers, arrays and objects`);
  }
  if (message.role === 'tool' && !statuses.has(message.status)) {
    throw invalid(`${at}.status must be ok or error, not ${shownValue(message.status)}`);
  }
}

function hasJson(value: object): boolean {
  try {
    return jsonText(value) !== undefined;
  } catch {
    return false;
  }
}

/** Checks a content. Errors: `INVALID_INPUT`, with `at` as its name. */
export function checkContent(content: unknown, at: string): void {
  if (typeof content === 'string') return;
  if (!Array.isArray(content)) {
    throw invalid(`${at} must be a string or an array of parts, not ${shownValue(content)}`);
  }
  checkDepth(content, at);
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
    if (typeof call?.id === 'string' && typeof call.function?.name === 'string') {
      if (typeof call.function.arguments !== 'string')
        checkDepth(call.function.arguments, `${at}.toolCalls[${index}].function.arguments`);
      continue;
    }
    throw invalid(`${at}.toolCalls[${index}] must be a call: { id, type: "function", function: { name, arguments } }`);
  }
}

function checkDepth(value: unknown, at: string): void {
  if (nestsTooDeep(value)) throw invalid(`${at} must not nest deeper than ${maxJsonDepth} levels`);
}

function invalid(what: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', `${what}.`);
}

/** Token usage of one model call, or a sum over several. */
export interface Usage {
  /** The request, including cached tokens. */
  readonly promptTokens: number;
  /** The response, including reasoning. */
  readonly completionTokens: number;
  /** The sum of both. */
  readonly totalTokens: number;
  /** The part of `promptTokens` that came from a prompt cache. */
  readonly cachedTokens?: number;
  /** The part of `promptTokens` that was written to a prompt cache. */
  readonly cacheWriteTokens?: number;
  /** The part of `completionTokens` that was reasoning. */
  readonly reasoningTokens?: number;
  /** In US dollars. */
  readonly cost?: number;
  /** True if the numbers contain an estimate: of a limit on tokens, or of a budget, for what the vendor did not report. */
  readonly estimated?: boolean;
  /**
   * The usage of requests of the same call without an answer, as their providers reported it: retried, hedged or aborted ones. Not part of the other
   * numbers, which are those of the answer; sums over several calls include both.
   */
  readonly discarded?: Omit<Usage, 'discarded'>;
}

/** The usage of the model calls that one agent made with one model. */
export interface AgentUsage {
  readonly agentId: string;
  /** Absent if the provider does not report it. */
  readonly model?: string;
  readonly usage: Usage;
}

export const noUsage: Usage = { promptTokens: 0, completionTokens: 0, totalTokens: 0 };

/** The sum of two usages, including `discarded`; optional members are kept if either has them. */
export function addUsage(a: Usage, b: Usage): Usage {
  if (a.discarded || b.discarded) return addUsage(wholeUsage(a), wholeUsage(b));
  return {
    promptTokens: a.promptTokens + b.promptTokens,
    completionTokens: a.completionTokens + b.completionTokens,
    totalTokens: a.totalTokens + b.totalTokens,
    ...optionalSum('cachedTokens', a, b),
    ...optionalSum('cacheWriteTokens', a, b),
    ...optionalSum('reasoningTokens', a, b),
    ...optionalSum('cost', a, b),
    ...(a.estimated || b.estimated ? { estimated: true } : {}),
  };
}

type OptionalCount = 'cachedTokens' | 'cacheWriteTokens' | 'reasoningTokens' | 'cost';

function wholeUsage({ discarded, ...answered }: Usage): Usage {
  return discarded ? addUsage(answered, discarded) : answered;
}

function optionalSum(name: OptionalCount, a: Usage, b: Usage): Partial<Usage> {
  return a[name] === undefined && b[name] === undefined ? {} : { [name]: (a[name] ?? 0) + (b[name] ?? 0) };
}

/** Merges two arrays of usage by agent and model: one entry per agent and model. */
export function addUsed(to: readonly AgentUsage[], added: readonly AgentUsage[]): readonly AgentUsage[] {
  if (added.length === 0) return to;
  const sum = to.slice();
  for (const each of added) {
    const index = sum.findIndex((known) => isSame(known, each));
    const known = sum[index];
    if (known) sum[index] = { ...known, usage: addUsage(known.usage, each.usage) };
    else sum.push({ ...each, usage: addUsage(noUsage, each.usage) });
  }
  return sum;
}

/** Subtracts a recorded part from usage by agent and model. */
export function restOf(all: readonly AgentUsage[], part: readonly AgentUsage[]): readonly AgentUsage[] {
  if (part.length === 0) return all;
  return all.flatMap((each) => {
    const known = part.find((recorded) => isSame(recorded, each));
    const usage = known ? lessUsage(each.usage, known.usage) : each.usage;
    return usage.totalTokens > 0 ? [{ ...each, usage }] : [];
  });
}

export function usageOf(used: readonly AgentUsage[]): Usage {
  let sum = used[0]?.usage ?? noUsage;
  for (let index = 1; index < used.length; index++) sum = addUsage(sum, used[index]?.usage ?? noUsage);
  return sum;
}

/** Subtracts a part from a usage; no number falls below 0. */
export function lessUsage(usage: Usage, part: Usage): Usage {
  const { discarded: _, ...whole } = usage.discarded ? addUsage(usage, noUsage) : usage;
  const { discarded: __, ...known } = part.discarded ? addUsage(part, noUsage) : part;
  const less = (name: 'promptTokens' | 'completionTokens' | 'totalTokens' | OptionalCount) =>
    Math.max(0, (whole[name] ?? 0) - (known[name] ?? 0));
  return {
    ...whole,
    promptTokens: less('promptTokens'),
    completionTokens: less('completionTokens'),
    totalTokens: less('totalTokens'),
    ...(whole.cachedTokens === undefined ? {} : { cachedTokens: less('cachedTokens') }),
    ...(whole.cacheWriteTokens === undefined ? {} : { cacheWriteTokens: less('cacheWriteTokens') }),
    ...(whole.reasoningTokens === undefined ? {} : { reasoningTokens: less('reasoningTokens') }),
    ...(whole.cost === undefined ? {} : { cost: less('cost') }),
  };
}

function isSame(one: AgentUsage, other: AgentUsage): boolean {
  return one.agentId === other.agentId && one.model === other.model;
}

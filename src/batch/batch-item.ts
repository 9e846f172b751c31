import { createHash } from 'node:crypto';
import { AgentLoopError, checkInput, isObject, type Message, messageOf, shownValue } from '../core/contracts/index.ts';
import type { BatchItem } from './batch-options.ts';

/** An item of a batch, checked, with its key. */
export interface PlacedItem {
  readonly key: string;
  readonly messages: readonly Message[];
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
  /** A hash of the messages. */
  readonly input: string;
  /** `line 3`, `item 3`. */
  readonly place: string;
}

const longestKey = 512;
const itemNames: readonly string[] = ['key', 'prompt', 'messages', 'metadata'];

/** Returns what is wrong with the names of the properties of an item. `more`: names that are known, but not for users. */
export function strayProperty(item: object, more: readonly string[] = []): string | undefined {
  const stray = Object.keys(item).find((name) => ![...itemNames, ...more].includes(name));
  if (stray === undefined) return undefined;
  return `unknown property "${stray}"; allowed: ${itemNames.join(', ')}; put others into metadata`;
}

/** The items of one source, in order. Memory: the key and the place of each. */
export class ItemCheck {
  readonly #places = new Map<string, string>();
  #count = 0;

  /** How many items there were so far. */
  get count(): number {
    return this.#count;
  }

  /** Errors: `INVALID_INPUT`, naming the place; of a key that came before, both places. */
  place(given: BatchItem | string): PlacedItem {
    this.#count += 1;
    const item = typeof given === 'string' ? { prompt: given } : given;
    if (typeof item !== 'object' || item === null)
      throw invalid(`item ${this.#count} must be a string or an object { key, prompt }, not ${shownValue(given)}`);
    const { line, metadata, key = String(line ?? this.#count) } = item;
    const place = line === undefined ? `item ${this.#count}` : `line ${line}`;
    const flaw = strayProperty(item, ['line']);
    if (flaw !== undefined) throw invalid(`${place}: ${flaw}`);
    if (typeof key !== 'string' || key === '' || key.length > longestKey)
      throw invalid(`${place}: key must be a string of 1 to ${longestKey} characters, not ${shownValue(key)}`);
    const before = this.#places.get(key);
    if (before !== undefined)
      throw invalid(`${before} and ${place} have the same key "${key}"; a key names one item of a batch`);
    this.#places.set(key, place);
    if (metadata !== undefined && !isObject(metadata))
      throw invalid(`${place}: metadata must be an object, not ${shownValue(metadata)}`);
    const messages = messagesOf(item, place);
    return { key, messages, metadata, input: hash(JSON.stringify(messages)).slice(0, 16), place };
  }
}

function messagesOf({ prompt, messages }: BatchItem, place: string): readonly Message[] {
  if ((prompt === undefined) === (messages === undefined))
    throw invalid(`${place} must have either prompt or messages`);
  if (messages === undefined) {
    if (typeof prompt === 'string' && prompt.trim() !== '') return [{ role: 'user', content: prompt }];
    throw invalid(`${place}: prompt must be a string with text, not ${shownValue(prompt)}`);
  }
  try {
    checkInput(messages);
  } catch (error) {
    throw new AgentLoopError('INVALID_INPUT', `${place}: ${messageOf(error)}`, { cause: error });
  }
  return messages;
}

function invalid(message: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', `${message}.`);
}

/** The task of the first attempt of an item: the same in each start of the batch. */
export function taskIdOf(batchId: string, key: string): string {
  return `batch-${hash(`${batchId}\0${key}`).slice(0, 40)}`;
}

/** The task of an attempt, from 1. */
export function attemptId(taskId: string, attempt: number): string {
  return attempt === 1 ? taskId : `${taskId}.${attempt}`;
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

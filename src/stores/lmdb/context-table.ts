import type { Key } from 'lmdb';
import type { ContextMetadata } from '../../core/contracts/index.ts';
import { damagedContext, newerContext, parsedPart } from '../messages/context-errors.ts';
import { type StampedMessage, stampedOf } from '../messages/stored-messages.ts';
import type { LmdbDatabase } from './lmdb-database.ts';

/** The version of the keys and values below. */
const layout = 1;
/** Sorts behind every number and every id. */
const last = '~';

/** What is known of a context without its messages. Times are in milliseconds since 1970. */
export interface ContextHead {
  readonly layout: number;
  readonly contextId: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly total: number;
  /** How many turns were ever begun: numbers them. */
  readonly begun: number;
  /** How many of them are open. */
  readonly open: number;
  readonly version: number;
  /** The agent that answers next. */
  readonly agentId?: string;
  /** Of its messages. Absent for contexts of version 0.1. */
  readonly bytes?: number;
}

/** What is known of a turn: the number it was begun with, until its messages are here. */
type TurnMark = { readonly begun: number } | 'saved';

export function newContextHead(contextId: string, now: number): ContextHead {
  return { layout, contextId, createdAt: now, updatedAt: now, total: 0, begun: 0, open: 0, version: 0, bytes: 0 };
}

/**
 * The contexts of a message store in an LMDB file, typed. Every method stands inside a `read` or `write` of the database.
 *
 * Keys: `['conversation', context]`, `['message', context, position]`, `['metadata', context]`, `['turn', context, task]`, and
 * `['open-turn', context, number]`, which names the task. None of them is a key of the journals, so both can share a file.
 */
export class ContextTable {
  readonly #db: LmdbDatabase;

  constructor(db: LmdbDatabase) {
    this.#db = db;
  }

  /** Errors: `SCHEMA`, `POISON`. */
  findHead(contextId: string): ContextHead | undefined {
    const text = this.#db.get(['conversation', contextId]);
    if (text === undefined) return undefined;
    const head: ContextHead = parsedPart(contextId, text, 'its head is damaged');
    if (head.layout > layout) throw newerContext(contextId, head.layout);
    return head;
  }

  putHead(head: ContextHead): void {
    this.#db.put(['conversation', head.contextId], JSON.stringify(head));
  }

  metadata(contextId: string): ContextMetadata {
    const text = this.#db.get(['metadata', contextId]);
    return text === undefined ? {} : parsedPart(contextId, text, 'its metadata are damaged');
  }

  /** `text`: the metadata as JSON. */
  putMetadata(contextId: string, text: string): void {
    this.#db.put(['metadata', contextId], text);
  }

  /** `text`: the message and its stamp as JSON. */
  putMessage(contextId: string, position: number, text: string): void {
    this.#db.put(['message', contextId, position], text);
  }

  /** The messages of the positions from `from` to in front of `to`. Errors: `POISON` where one is missing or damaged. */
  messages(contextId: string, from: number, to: number): readonly StampedMessage[] {
    if (to <= from) return [];
    const entries = this.#db.range({ start: ['message', contextId, from], end: ['message', contextId, to] });
    if (entries.length !== to - from) {
      throw damagedContext(contextId, `it has ${entries.length} messages where its head says ${to - from}`);
    }
    return entries.map(({ value }, index) =>
      stampedOf(parsedPart(contextId, value, `message ${from + index} is damaged`)),
    );
  }

  turn(contextId: string, taskId: string): TurnMark | undefined {
    const text = this.#db.get(['turn', contextId, taskId]);
    return text === undefined ? undefined : parsedPart(contextId, text, `its turn "${taskId}" is damaged`);
  }

  putOpenTurn(contextId: string, taskId: string, begun: number): void {
    this.#db.put(['turn', contextId, taskId], JSON.stringify({ begun }));
    this.#db.put(['open-turn', contextId, begun], taskId);
  }

  putSavedTurn(contextId: string, taskId: string, before: TurnMark | undefined): void {
    this.#db.put(['turn', contextId, taskId], JSON.stringify('saved'));
    if (typeof before === 'object') this.#db.remove(['open-turn', contextId, before.begun]);
  }

  /** Task ids, the one begun first first. */
  openTurns(contextId: string): readonly string[] {
    const range = { start: ['open-turn', contextId, 0], end: ['open-turn', contextId, last] };
    return this.#db.range(range).map(({ value }) => value);
  }

  /** The heads after an id, in the order of the ids. */
  heads(after: string, limit: number): readonly ContextHead[] {
    const range = { start: ['conversation', `${after}\0`], end: ['conversation', last], limit };
    return this.#db.range(range).flatMap(({ key }) => this.findHead(idIn(key)) ?? []);
  }

  remove(contextId: string): void {
    for (const kind of ['message', 'turn', 'open-turn']) {
      this.#db.removeRange([kind, contextId], [kind, contextId, last]);
    }
    this.#db.remove(['conversation', contextId]);
    this.#db.remove(['metadata', contextId]);
  }
}

function idIn(key: Key): string {
  return Array.isArray(key) ? String(key.at(-1)) : String(key);
}

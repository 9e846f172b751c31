import type { ContextMetadata } from '../../core/contracts/index.ts';
import type { Rows, Steps } from '../table/table.ts';
import { damagedContext, newerContext, parsedPart } from './context-errors.ts';
import { type StampedMessage, stampedOf } from './stored-messages.ts';

/** The version of the keys and values below. */
const layout = 1;

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
 * The contexts of a message store in a table, typed.
 *
 * Keys: `['conversation', context]`, `['message', context, position]`, `['metadata', context]`, `['turn', context, task]`, and
 * `['open-turn', context, number]`, which names the task. None of them is a key of the journals, so both can share a file.
 */
export class ContextRows {
  readonly #rows: Rows;

  constructor(rows: Rows) {
    this.#rows = rows;
  }

  /** Errors: `SCHEMA`, `POISON`. */
  *findHead(contextId: string): Steps<ContextHead | undefined> {
    const text = yield* this.#rows.get(['conversation', contextId]);
    return text === undefined ? undefined : headOf(contextId, text);
  }

  putHead(head: ContextHead): void {
    this.#rows.put(['conversation', head.contextId], JSON.stringify(head));
  }

  *metadata(contextId: string): Steps<ContextMetadata> {
    const text = yield* this.#rows.get(['metadata', contextId]);
    return text === undefined ? {} : parsedPart(contextId, text, 'its metadata are damaged');
  }

  /** `text`: the metadata as JSON. */
  putMetadata(contextId: string, text: string): void {
    this.#rows.put(['metadata', contextId], text);
  }

  /** `text`: the message and its stamp as JSON. */
  putMessage(contextId: string, position: number, text: string): void {
    this.#rows.put(['message', contextId, position], text);
  }

  /** The messages of the positions from `from` to in front of `to`. Errors: `POISON` where one is missing or damaged. */
  *messages(contextId: string, from: number, to: number): Steps<readonly StampedMessage[]> {
    if (to <= from) return [];
    const entries = yield* this.#rows.range(['message', contextId], { from, to });
    if (entries.length !== to - from) {
      throw damagedContext(contextId, `it has ${entries.length} messages where its head says ${to - from}`);
    }
    return entries.map(({ value }, index) =>
      stampedOf(parsedPart(contextId, value, `message ${from + index} is damaged`)),
    );
  }

  *turn(contextId: string, taskId: string): Steps<TurnMark | undefined> {
    const text = yield* this.#rows.get(['turn', contextId, taskId]);
    return text === undefined ? undefined : parsedPart(contextId, text, `its turn "${taskId}" is damaged`);
  }

  putOpenTurn(contextId: string, taskId: string, begun: number): void {
    this.#rows.put(['turn', contextId, taskId], JSON.stringify({ begun }));
    this.#rows.put(['open-turn', contextId, begun], taskId);
  }

  putSavedTurn(contextId: string, taskId: string, before: TurnMark | undefined): void {
    this.#rows.put(['turn', contextId, taskId], JSON.stringify('saved'));
    if (typeof before === 'object') this.#rows.remove(['open-turn', contextId, before.begun]);
  }

  /** Task ids, the one begun first first. */
  *openTurns(contextId: string): Steps<readonly string[]> {
    return (yield* this.#rows.range(['open-turn', contextId])).map(({ value }) => value);
  }

  /** The heads after an id, in the order of the ids. */
  *heads(after: string, limit: number): Steps<readonly ContextHead[]> {
    const entries = yield* this.#rows.range(['conversation'], { from: `${after}\0`, limit });
    return entries.map(({ key, value }) => headOf(String(key.at(-1)), value));
  }

  *remove(contextId: string): Steps<void> {
    for (const kind of ['conversation', 'metadata', 'message', 'turn', 'open-turn']) {
      for (const { key } of yield* this.#rows.range([kind, contextId])) this.#rows.remove(key);
    }
  }
}

function headOf(contextId: string, text: string): ContextHead {
  const head: ContextHead = parsedPart(contextId, text, 'its head is damaged');
  if (head.layout > layout) throw newerContext(contextId, head.layout);
  return head;
}

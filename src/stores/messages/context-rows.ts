import type { ContextMetadata } from '../../core/contracts/index.ts';
import type { Rows, Steps } from '../table/table.ts';
import { damagedContext, newerContext, parsedPart, type StampedMessage, stampedOf } from './stored-messages.ts';

/** The version of the keys and values below. */
const layout = 1;

/** The data of a context beside its messages. Times are in milliseconds since 1970. */
export interface ContextHead {
  readonly layout: number;
  readonly contextId: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly total: number;
  /** The number of registered turns so far: numbers them. */
  readonly begun: number;
  /** The number of open turns. */
  readonly open: number;
  readonly version: number;
  /** The agent that answers next. */
  readonly agentId?: string;
  /** The bytes of its messages. Absent for contexts of version 0.1. */
  readonly bytes?: number;
}

/** The state of a turn: its registration number, until its messages are stored. */
type TurnMark = { readonly begun: number } | 'saved';

export function newContextHead(contextId: string, now: number): ContextHead {
  return { layout, contextId, createdAt: now, updatedAt: now, total: 0, begun: 0, open: 0, version: 0, bytes: 0 };
}

/**
 * The contexts of a message store in a table, typed.
 *
 * Keys: `['conversation', context]`, `['message', context, position]`, `['metadata', context]`, `['turn', context, task]`, and
 * `['open-turn', context, number]`, which contains the task; with an index of idle contexts `['idle', time, context]`, and `['idle-from']`: how far
 * contexts of older versions were added to it. None of them is a key of the journals, so both can share a file.
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

  /** The messages at positions from `from` up to, not including, `to`. Errors: `POISON` if one is missing or damaged. */
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

  removeOpenTurn(contextId: string, taskId: string, begun: number): void {
    this.#rows.remove(['turn', contextId, taskId]);
    this.#rows.remove(['open-turn', contextId, begun]);
  }

  /** Task ids, the oldest first. */
  *openTurns(contextId: string): Steps<readonly string[]> {
    return (yield* this.#rows.range(['open-turn', contextId])).map(({ value }) => value);
  }

  /** The heads after an id, in the order of the ids. */
  *heads(after: string, limit: number): Steps<readonly ContextHead[]> {
    const entries = yield* this.#rows.range(['conversation'], { from: `${after}\0`, limit });
    return entries.map(({ key, value }) => headOf(String(key.at(-1)), value));
  }

  *hasTurns(contextId: string): Steps<boolean> {
    return (yield* this.#rows.range(['turn', contextId], { limit: 1 })).length > 0;
  }

  /** Changes the index of idle contexts, before a head is written; `undefined`: before the context is removed. */
  *putIdle(contextId: string, head: ContextHead | undefined): Steps<void> {
    const before = yield* this.#readableHead(contextId);
    if (before) this.#rows.remove(['idle', before.updatedAt, contextId]);
    if (head?.open === 0) this.#rows.put(['idle', head.updatedAt, contextId], '');
  }

  /** Contexts without an open turn that were last written before a time. Their entries, and obsolete ones, are removed. */
  *idleBefore(time: number, limit: number): Steps<readonly string[]> {
    const found: string[] = [];
    for (const { key } of yield* this.#rows.range(['idle'], { to: time, limit })) {
      const contextId = String(key.at(-1));
      this.#rows.remove(key);
      const head = yield* this.#readableHead(contextId);
      if (head && head.open === 0 && head.updatedAt < time) found.push(contextId);
    }
    return found;
  }

  /** Adds contexts to the index that were written by an older version, which had none, some at a time. */
  *indexIdle(limit: number): Steps<void> {
    const from = yield* this.#rows.get(['idle-from']);
    if (from === 'end') return;
    const entries = yield* this.#rows.range(['conversation'], { from: `${from ?? ''}\0`, limit });
    for (const { key } of entries) {
      const head = yield* this.#readableHead(String(key.at(-1)));
      if (head?.open === 0) this.#rows.put(['idle', head.updatedAt, head.contextId], '');
    }
    const last = entries.at(-1);
    this.#rows.put(['idle-from'], entries.length < limit || !last ? 'end' : String(last.key.at(-1)));
  }

  /** `undefined` also for a head that this version cannot read, whose context is kept. */
  *#readableHead(contextId: string): Steps<ContextHead | undefined> {
    try {
      return yield* this.findHead(contextId);
    } catch {
      return undefined;
    }
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

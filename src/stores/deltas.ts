import type { Delta } from '../core/contracts/index.ts';
import { GrowingText, type JournalRecord, kindOf } from '../core/journal/index.ts';

type LlmDelta = Extract<Delta, { type: 'llm' }>;

/**
 * The open model call of a journal, and its streamed text so far. Opened by `llm.start`, closed by
 * `llm.done` or any other end. Stores text, not deltas, so its memory grows with the text alone.
 */
export class OpenAttempt {
  #start: Extract<JournalRecord, { type: 'llm.start' }> | undefined;
  readonly #text = new GrowingText();
  #attempt = 0;

  /** Follows the journal: call it with each record. */
  apply(record: JournalRecord): void {
    if (record.type === 'llm.start') this.#open(record);
    else if (kindOf(record.type)?.streams === 'ends') this.close();
  }

  /** Drops the attempt: its response is recorded, or it was discarded. */
  close(): void {
    this.#start = undefined;
    this.#text.clear();
  }

  /** Adds a delta. Returns false if it belongs to no open attempt: then readers must not receive it. */
  accept(delta: LlmDelta): boolean {
    const start = this.#start;
    if (start === undefined || delta.iteration !== start.iteration || delta.attempt < start.attempt) return false;
    this.#attempt = delta.attempt;
    if (delta.chunk.type === 'text') this.#text.add(delta.chunk.text);
    else if (delta.chunk.type === 'attempt') this.#text.clear();
    return true;
  }

  /** The text so far as one delta; `undefined` if there is none. */
  soFar(): LlmDelta | undefined {
    const start = this.#start;
    if (start === undefined || this.#text.isEmpty) return undefined;
    const { epoch, iteration } = start;
    return {
      type: 'llm',
      epoch,
      iteration,
      attempt: this.#attempt,
      chunk: { type: 'text', text: this.#text.toString() },
    };
  }

  #open(start: Extract<JournalRecord, { type: 'llm.start' }>): void {
    this.#start = start;
    this.#text.clear();
    this.#attempt = start.attempt;
  }
}

/** Merges text or reasoning with the following delta of the same call; `undefined` for any other two. */
export function mergedDelta(one: Delta, next: Delta): LlmDelta | undefined {
  if (one.type !== 'llm' || next.type !== 'llm') return undefined;
  if (one.epoch !== next.epoch || one.iteration !== next.iteration || one.attempt !== next.attempt) return undefined;
  const [before, after] = [one.chunk, next.chunk];
  if (before.type === 'text' && after.type === 'text') {
    return { ...one, chunk: { type: 'text', text: before.text + after.text } };
  }
  if (before.type === 'reasoning' && after.type === 'reasoning') {
    return { ...one, chunk: { type: 'reasoning', text: before.text + after.text } };
  }
  return undefined;
}

/** Deltas in their stored form. `undefined` if a tool reported a value that is not JSON: publishing never fails. */
export function deltasJson(deltas: readonly Delta[]): string | undefined {
  try {
    return JSON.stringify(deltas);
  } catch {
    return undefined;
  }
}

import type { Unsubscribable } from 'rxjs';
import {
  type Delta,
  type FollowSignal,
  systemClock,
  type TaskStateStore,
  tailOf,
  textOf,
} from '../core/contracts/index.ts';
import { applyRecord, type JournalRecord, type LoopState, openQuestions, taskState } from '../core/journal/index.ts';
import { pause, within } from '../core/streams/index.ts';
import type { ShownValues } from './shown-values.ts';
import { isSettled, rowChanges, type TimelineRow } from './timeline.ts';
import type { RowsEvent, ShownHead, ShownRow } from './wire.ts';

/** Rows of one event. */
const batch = 1_000;
/** Records that are folded before others get their turn. */
const slice = 2_000;
/** Of a row: characters of its text and of its result. */
const textLength = 240;
/** Of the text of a model call that runs. */
const liveLength = 4_000;
const heartbeatMs = 15_000;
/** How long changes are gathered before they are sent. */
const frameMs = 50;

interface KeptRow {
  readonly row: TimelineRow;
  readonly seq: number;
  readonly end?: number;
}

/** The rows of a journal, record by record. */
export class JournalRows {
  readonly #shown: ShownValues;
  readonly #rows: KeptRow[] = [];
  readonly #open = new Map<number, TimelineRow>();
  #state: LoopState | undefined;

  constructor(shown: ShownValues) {
    this.#shown = shown;
  }

  get length(): number {
    return this.#rows.length;
  }

  get isOver(): boolean {
    return this.#state?.isComplete ?? false;
  }

  /** The indexes of the rows that the record adds or changes. */
  add(record: JournalRecord): readonly number[] {
    const { changed, added } = rowChanges(this.#open, record, this.#state);
    this.#state = applyRecord(this.#state, record);
    const touched: number[] = [];
    for (const [index, row] of changed) {
      const kept = this.#rows[index];
      if (!kept || kept.row === row) continue;
      this.#rows[index] = { ...kept, row, end: record.seq };
      touched.push(index);
      if (isSettled(row)) this.#open.delete(index);
      else this.#open.set(index, row);
    }
    for (const row of added) {
      const index = this.#rows.push({ row, seq: record.seq }) - 1;
      touched.push(index);
      if (!isSettled(row)) this.#open.set(index, row);
    }
    return touched;
  }

  shown(index: number): ShownRow | undefined {
    const kept = this.#rows[index];
    if (!kept) return undefined;
    const { row, seq, end } = kept;
    const place = { index, seq, ...(end !== undefined && { end }), at: row.at };
    switch (row.type) {
      case 'moment':
        return { ...place, kind: 'moment', state: 'done', title: this.#shown.line(row.what, textLength) };
      case 'model': {
        const { done, iteration, attempt, cutOff } = row;
        const state = done ? 'done' : cutOff ? 'interrupted' : 'running';
        const title = done?.model ?? 'model';
        const base = { ...place, kind: 'model' as const, state, title, iteration, attempt } satisfies ShownRow;
        if (!done) return base;
        const said = done.text === '' ? `${done.toolCalls} tool call${done.toolCalls === 1 ? '' : 's'}` : done.text;
        const tokens = done.usage && ([done.usage.promptTokens, done.usage.completionTokens] as const);
        return { ...base, ms: done.durationMs, text: this.#shown.line(said, textLength), ...(tokens && { tokens }) };
      }
      case 'tool': {
        const { done, cutOff, asked, callId, attempt, toolName, child } = row;
        const ended = done?.success ? 'done' : 'failed';
        const state = done ? ended : cutOff ? 'interrupted' : asked ? 'asked' : 'running';
        const result = done && (done.error?.message ?? textOf(done.content));
        return {
          ...place,
          kind: 'tool',
          state,
          title: toolName,
          callId,
          attempt,
          text: this.#shown.line(row.arguments, textLength),
          ...(done && { ms: done.durationMs }),
          ...(result !== undefined && { result: this.#shown.line(result, textLength) }),
          ...(child && { child: child.taskId }),
        };
      }
    }
  }

  get head(): ShownHead {
    const state = this.#state;
    if (!state) throw new TypeError('the journal is empty');
    const { seq, updatedAt, iteration } = state;
    const questions = openQuestions(state).length;
    return { state: taskState(state), seq, updatedAt, iteration, rows: this.length, openQuestions: questions };
  }
}

interface Streaming {
  readonly taskId: string;
  readonly records: readonly JournalRecord[];
  readonly store: TaskStateStore;
  readonly shown: ShownValues;
  readonly errorOf: (error: unknown) => { readonly code: string; readonly message: string };
}

/**
 * The rows of a turn as server-sent events: those of the records so far in batches, then those that change, until the turn ends or the
 * reader leaves. Pulled: while the reader waits, changed rows are remembered by their index alone.
 */
export function rowsStream(streaming: Streaming): ReadableStream<Uint8Array> {
  const bytes = new TextEncoder();
  const reader = new RowsReader(streaming);
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const event = await reader.next();
        if (event === undefined) return controller.close();
        const text = event === 'heartbeat' ? ': \n\n' : `data: ${JSON.stringify(event)}\n\n`;
        controller.enqueue(bytes.encode(text));
      },
      cancel() {
        reader.leave();
      },
    },
    { highWaterMark: 0 },
  );
}

class RowsReader {
  readonly #streaming: Streaming;
  readonly #rows: JournalRows;
  /** Indexes of rows that were not sent as they are now, in the order of their change. */
  readonly #changed = new Set<number>();
  #folded = 0;
  #subscription: Unsubscribable | undefined;
  #live = '';
  #isLiveNew = false;
  #isHeadNew = false;
  #end: RowsEvent | undefined;
  #isOver = false;
  #wake: (() => void) | undefined;

  constructor(streaming: Streaming) {
    this.#streaming = streaming;
    this.#rows = new JournalRows(streaming.shown);
  }

  /** Undefined after the last one. */
  async next(): Promise<RowsEvent | 'heartbeat' | undefined> {
    for (;;) {
      if (this.#isOver) return undefined;
      await this.#foldSlice();
      const event = this.#waiting();
      if (event) return event;
      if (this.#folded < this.#streaming.records.length) continue;
      if (this.#end) {
        this.leave();
        return this.#end;
      }
      this.#follow();
      if (!(await this.#changes())) return 'heartbeat';
    }
  }

  leave(): void {
    this.#isOver = true;
    this.#subscription?.unsubscribe();
    this.#wake?.();
  }

  async #foldSlice(): Promise<void> {
    const { records } = this.#streaming;
    if (this.#folded >= records.length) return;
    const until = Math.min(records.length, this.#folded + slice);
    for (const record of records.slice(this.#folded, until)) this.#add(record);
    this.#folded = until;
    await new Promise((resolve) => setImmediate(resolve));
  }

  #add(record: JournalRecord): void {
    for (const index of this.#rows.add(record)) this.#changed.add(index);
    this.#isHeadNew = true;
  }

  #waiting(): RowsEvent | undefined {
    if (this.#changed.size > 0 || this.#isHeadNew) {
      const indexes = [...this.#changed].slice(0, batch);
      for (const index of indexes) this.#changed.delete(index);
      this.#isHeadNew = false;
      const rows = indexes.flatMap((index) => this.#rows.shown(index) ?? []);
      return { type: 'rows', rows, head: this.#rows.head };
    }
    if (!this.#isLiveNew) return undefined;
    this.#isLiveNew = false;
    return { type: 'text', text: tailOf(this.#streaming.shown.clean(this.#live), liveLength) };
  }

  #follow(): void {
    if (this.#subscription) return;
    const { store, taskId, records, errorOf } = this.#streaming;
    if (this.#rows.isOver) {
      this.#end = { type: 'end' };
      return;
    }
    this.#subscription = store.follow(taskId, { from: records.length + 1 }).subscribe({
      next: (signal) => this.#take(signal),
      error: (error) => {
        this.#end = { type: 'error', ...errorOf(error) };
        this.#wake?.();
      },
      complete: () => {
        this.#end = { type: 'end' };
        this.#wake?.();
      },
    });
  }

  #take(signal: FollowSignal): void {
    if (signal.type === 'record') {
      this.#add(signal.record);
      if (signal.record.type.startsWith('llm.')) this.#setLive('');
    } else if (signal.delta.type === 'llm') this.#takeDelta(signal.delta);
    this.#wake?.();
  }

  #takeDelta({ chunk }: Extract<Delta, { type: 'llm' }>): void {
    if (chunk.type === 'attempt') this.#setLive('');
    else if (chunk.type === 'text') this.#setLive(this.#live + chunk.text);
  }

  #setLive(text: string): void {
    if (text === this.#live) return;
    // Secrets are removed before the beginning is cut off; seldom, so that the cost stays linear.
    const isLong = text.length > 4 * liveLength;
    this.#live = isLong ? tailOf(this.#streaming.shown.clean(text), 2 * liveLength) : text;
    this.#isLiveNew = true;
  }

  /** Resolves once something is to be sent, a moment later; with false after a silence. */
  async #changes(): Promise<boolean> {
    if (this.#end || this.#changed.size > 0 || this.#isHeadNew || this.#isLiveNew) return true;
    const woken = new Promise<boolean>((resolve) => {
      this.#wake = () => resolve(true);
    });
    const isWoken = await within({ ms: heartbeatMs, clock: systemClock, late: () => false }, woken);
    this.#wake = undefined;
    if (isWoken && !this.#isOver) await pause(frameMs, systemClock);
    return isWoken;
  }
}

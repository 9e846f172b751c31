import type { Delta } from '../../core/contracts/index.ts';
import { GrowingText } from '../../core/journal/index.ts';
import type { TaskHead } from './task-head.ts';

/** A view, and access to its text. */
export interface ReadableDeltas {
  readonly view: DeltaView;
  /** The text between two offsets. */
  text(from: number, to: number): string;
}

/** A delta and the seq of the record that it follows. */
export interface PlacedDelta {
  readonly seq: number;
  readonly delta: Delta;
}

interface Position {
  readonly source: string;
  readonly epoch: number;
  /** The last delta that is not text. */
  n: number;
  generation: number;
  /** How much of that generation's text was emitted. */
  offset: number;
}

/** A reader's position in a task's deltas, so that it gets each once and the text whole. */
export class DeltaCursor {
  /** The seq of the `llm.start` that was open when the reader joined: it gets that call's text so far as one chunk. */
  readonly #joinedIn: number | undefined;
  #position: Position | undefined;

  constructor(head: TaskHead) {
    this.#joinedIn = head.call?.seq;
  }

  /** Returns the new deltas, in order. */
  advance(deltas: ReadableDeltas, head: TaskHead): readonly PlacedDelta[] {
    const { view } = deltas;
    const at = this.#positionIn(view);
    const isOpen = head.call?.seq === view.opened;
    const placed: PlacedDelta[] = [];
    const giveText = (to: number, seq: number) => {
      if (isOpen && to > at.offset) placed.push({ seq, delta: textOf(view, deltas.text(at.offset, to)) });
      at.offset = Math.max(at.offset, to);
    };
    for (const logged of view.recent) {
      if (logged.n <= at.n) continue;
      if (logged.generation === view.generation) {
        enter(at, view.generation);
        giveText(logged.offset, logged.seq);
      }
      placed.push({ seq: logged.seq, delta: logged.delta });
      at.n = logged.n;
    }
    enter(at, view.generation);
    giveText(view.length, head.seq);
    return placed;
  }

  #positionIn(view: DeltaView): Position {
    const { source, epoch } = view;
    if (this.#position?.source === source && this.#position.epoch === epoch) return this.#position;
    const joinsNow = this.#position === undefined && this.#joinedIn !== undefined && this.#joinedIn === view.opened;
    this.#position = { source, epoch, n: joinsNow ? view.n : 0, generation: 0, offset: 0 };
    return this.#position;
  }
}

function enter(at: Position, generation: number): void {
  if (at.generation === generation) return;
  at.generation = generation;
  at.offset = 0;
}

function textOf({ epoch, iteration, attempt }: DeltaView, text: string): Delta {
  return { type: 'llm', epoch, iteration, attempt, chunk: { type: 'text', text } };
}

type LlmDelta = Extract<Delta, { type: 'llm' }>;

/** A delta other than text, with its position. */
export interface LoggedDelta {
  /** From 1, counting those that are not text. */
  readonly n: number;
  /** The journal's last seq when it was published. */
  readonly seq: number;
  /** The length of the text before it. */
  readonly offset: number;
  readonly generation: number;
  readonly delta: Delta;
}

/** The deltas of one lease, for a reader. */
export interface DeltaView {
  /** The id of the store that published them. */
  readonly source: string;
  readonly born: number;
  readonly epoch: number;
  /** The seq of the `llm.start` that the text belongs to; 0 before the first. */
  readonly opened: number;
  readonly iteration: number;
  readonly attempt: number;
  /** The number of the text: a discarded text, or a new call, starts the next one. */
  readonly generation: number;
  /** Characters of the text. */
  readonly length: number;
  /** The number of deltas other than text. */
  readonly n: number;
  /** The last of them. */
  readonly recent: readonly LoggedDelta[];
}

const maxRecent = 64;

/** The published deltas of one lease: the whole text of the open model call, and the last 64 others. */
export class DeltaLog {
  #view: DeltaView;
  readonly #text = new GrowingText();

  constructor(source: string, { born, epoch }: TaskHead) {
    const empty = { opened: 0, iteration: 0, attempt: 0, generation: 0, length: 0, n: 0, recent: [] };
    this.#view = { source, born, epoch, ...empty };
  }

  get view(): DeltaView {
    return this.#view;
  }

  /** The text of the open model call between two offsets. */
  text(from: number, to: number): string {
    return this.#text.slice(from, to);
  }

  belongsTo({ born, epoch }: TaskHead): boolean {
    return this.#view.born === born && this.#view.epoch === epoch;
  }

  /** Returns false if the delta belongs to no open attempt: then readers must not receive it. */
  accept(delta: Delta, head: TaskHead): boolean {
    if (delta.type === 'llm') return this.#acceptChunk(delta, head);
    this.#note(delta, head.seq);
    return true;
  }

  /** Frees the text of a call that has ended. */
  settle(head: TaskHead): void {
    if (head.call === undefined && !this.#text.isEmpty) this.#begin({ opened: 0 });
  }

  #acceptChunk(delta: LlmDelta, { call, seq }: TaskHead): boolean {
    if (call === undefined || delta.iteration !== call.iteration || delta.attempt < call.attempt) return false;
    if (this.#view.opened !== call.seq) this.#begin({ opened: call.seq, iteration: call.iteration });
    const { attempt, chunk } = delta;
    if (chunk.type === 'text') {
      this.#text.add(chunk.text);
      this.#view = { ...this.#view, attempt, length: this.#text.length };
      return true;
    }
    this.#note(delta, seq);
    if (chunk.type === 'attempt') this.#begin({ attempt });
    return true;
  }

  #begin(changes: Partial<Pick<DeltaView, 'opened' | 'iteration' | 'attempt'>>): void {
    this.#text.clear();
    this.#view = { ...this.#view, ...changes, generation: this.#view.generation + 1, length: 0 };
  }

  #note(delta: Delta, seq: number): void {
    const { n, length, generation, recent } = this.#view;
    const logged = { n: n + 1, seq, offset: length, generation, delta };
    this.#view = { ...this.#view, n: n + 1, recent: [...recent, logged].slice(-maxRecent) };
  }
}

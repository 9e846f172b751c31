import type { Delta } from '../../core/contracts/index.ts';
import type { DeltaView, LoggedDelta } from './delta-log.ts';
import type { TaskHead } from './task-head.ts';

/** A view, and a way to its text. */
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
  /** How much of that generation's text was given. */
  offset: number;
}

/** What one reader has of a task's deltas, so that it gets each once and the text whole. */
export class DeltaCursor {
  /** The seq of the `llm.start` that was open when the reader came: of that call it gets the text so far as one chunk. */
  readonly #joinedIn: number | undefined;
  #position: Position | undefined;

  constructor(head: TaskHead) {
    this.#joinedIn = head.call?.seq;
  }

  /** What came since the last time, in order. */
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

/** The deltas of `recent` that fit into `maxCharacters` of JSON, the newest ones. */
export function newestWithin(recent: readonly LoggedDelta[], maxCharacters: number): readonly LoggedDelta[] {
  let room = maxCharacters;
  const tooOld = recent.findLastIndex((logged) => {
    room -= JSON.stringify(logged.delta).length;
    return room < 0;
  });
  return recent.slice(tooOld + 1);
}

import { defer, mergeMap, type OperatorFunction } from 'rxjs';
import { type ArtifactChunk, isArtifactChunk } from '../contracts/context-stores.ts';
import type { AgentEvent } from '../contracts/events.ts';
import type { ModelNote } from '../contracts/provider.ts';
import { type Commit, replayOf, type Signal, type Step, type StreamChunk } from './commit.ts';
import { artifactId, isoTime, Projection, type ProjectionOptions } from './projection.ts';
import { kindOf } from './record-table.ts';
import { isTerminal, type JournalRecord } from './records.ts';
import { shownRecord } from './replaced-text.ts';
import type { Changes, LoopState } from './state.ts';

/** Options of `projectEvents`: inputs of events that are in no record. */
export interface EventProjectorOptions {
  /** Whether the turn has a store. */
  readonly checkpoints: boolean;
  /** The time for events without a record, in milliseconds since 1970. */
  readonly now: () => number;
}

const none: readonly AgentEvent[] = [];

/** Of one note. */
const shownChanges = 20;

/** Projects the signals of one turn to events, in order. Memory: the text of the open model call; nothing else grows. */
export class EventProjector {
  readonly #options: EventProjectorOptions;
  #taskId = '';
  #contextId = '';
  #agentId = '';
  #iteration = 0;
  #attempt = 0;
  #artifactId = '';
  /** The emitted text of the open model call. */
  readonly #shown = new GrowingText();
  readonly #projection = new Projection();

  constructor(options: EventProjectorOptions) {
    this.#options = options;
  }

  /** The events of a signal. */
  project(signal: Signal): readonly AgentEvent[] {
    if (signal.type !== 'commit') {
      const event = this.projectDelta(signal);
      return event === undefined ? none : [event];
    }
    const { steps, replayed = false, continues = false } = signal;
    const [only] = steps;
    if (only && steps.length === 1) return this.#step(only, true);
    const shown = replayed && signal.after.isComplete ? signal.after.changes.replaced : undefined;
    const events: AgentEvent[] = [];
    for (let index = 0; index < steps.length; index++) {
      const last = !continues && (!replayed || index === steps.length - 1);
      events.push(...this.#step(steps[index] as Step, last, shown));
    }
    return events;
  }

  /** The events of records that were emitted before, for a late subscriber; `continues` as in a commit. Does not change this projector. */
  replay(records: readonly JournalRecord[], continues: boolean): readonly AgentEvent[] {
    return new EventProjector(this.#options).project({ ...replayOf(records), continues });
  }

  /** The event of a signal that is not a record, if it has one. */
  projectDelta(delta: Exclude<Signal, Commit>): AgentEvent | undefined {
    switch (delta.type) {
      case 'text':
        if (delta.text === '') return undefined;
        this.#shown.add(delta.text);
        return this.#textEvent(delta.text, this.#shown.length > delta.text.length);
      case 'reasoning':
        return {
          kind: 'internal:reasoning-delta',
          taskId: this.#taskId,
          contextId: this.#contextId,
          agentId: this.#agentId,
          timestamp: isoTime(this.#options.now()),
          iteration: this.#iteration,
          text: delta.text,
        };
      case 'tool-call':
        return this.#toolCall(delta);
      case 'tool-progress': {
        const { callId, toolName, update } = delta;
        if (isArtifactChunk(update)) return this.#artifactChunk(update);
        return {
          kind: 'internal:tool-progress',
          ...this.#place(),
          callId,
          toolName,
          update,
        };
      }
      case 'extension-error': {
        const { extension, hook, message, fatal } = delta;
        return {
          kind: 'internal:extension-error',
          ...this.#place(),
          extension,
          hook,
          message,
          fatal,
        };
      }
      case 'model-note':
        return this.#noted(delta.note);
      case 'sub-agent': {
        const { path, event } = delta;
        return {
          kind: 'internal:sub-agent',
          taskId: this.#taskId,
          contextId: this.#contextId,
          timestamp: event.timestamp,
          agentId: path.at(-1)?.agentId ?? '',
          path,
          event,
        };
      }
      case 'attempt':
        return delta.state === 'void' ? this.#discard(delta.reason) : undefined;
    }
  }

  /** The members shared by rare events; those of each token are written out, because a spread costs more. */
  #place() {
    return {
      taskId: this.#taskId,
      contextId: this.#contextId,
      agentId: this.#agentId,
      timestamp: isoTime(this.#options.now()),
      iteration: this.#iteration,
    };
  }

  /** The event with the text of the open model call, for a new subscriber. */
  openText(): AgentEvent | undefined {
    return this.#shown.isEmpty ? undefined : this.#textEvent(this.#shown.toString(), false);
  }

  #step(step: Step, last: boolean, replaced?: Changes['replaced']): readonly AgentEvent[] {
    const { before } = step;
    const record = replaced ? shownRecord(step.record, replaced) : step.record;
    if (record.type === 'turn.started') {
      this.#taskId = record.taskId;
      this.#contextId = record.contextId;
      this.#agentId = record.agentId;
      this.#shown.clear();
    } else if (record.type === 'llm.start') {
      this.#iteration = record.iteration;
      this.#attempt = record.attempt;
      this.#artifactId = artifactId(record.iteration);
      this.#shown.clear();
    } else if (record.type === 'agent.changed') {
      this.#agentId = record.to;
    }
    const shown = record.type === 'llm.done' ? this.#shown.toString() : '';
    if (record.type === 'llm.done' || isTerminal(record)) this.#shown.clear();
    const { checkpoints } = this.#options;
    return eventsOf(before, record, { checkpoints, shown, last, replaced, to: this.#projection });
  }

  #artifactChunk({ artifactId, name, text, append, lastChunk }: ArtifactChunk): AgentEvent {
    return {
      kind: 'artifact-update',
      taskId: this.#taskId,
      contextId: this.#contextId,
      agentId: this.#agentId,
      timestamp: isoTime(this.#options.now()),
      artifact: { artifactId, ...(name !== undefined && { name }), parts: [{ kind: 'text', text }] },
      append,
      lastChunk,
    };
  }

  #textEvent(text: string, append: boolean): AgentEvent {
    return {
      kind: 'artifact-update',
      taskId: this.#taskId,
      contextId: this.#contextId,
      agentId: this.#agentId,
      timestamp: isoTime(this.#options.now()),
      artifact: { artifactId: this.#artifactId, parts: [{ kind: 'text', text }] },
      append,
      lastChunk: false,
    };
  }

  #noted(note: ModelNote): AgentEvent {
    if (note.kind === 'warning') return { kind: 'internal:llm-warning', ...this.#place(), message: note.message };
    const { changes } = note;
    const omitted = changes.length - shownChanges;
    return {
      kind: 'internal:request-fitted',
      ...this.#place(),
      changes: omitted > 0 ? changes.slice(0, shownChanges) : changes,
      ...(omitted > 0 && { omitted }),
    };
  }

  #toolCall(delta: Extract<StreamChunk, { type: 'tool-call' }>): AgentEvent {
    return {
      kind: 'internal:tool-call-delta',
      taskId: this.#taskId,
      contextId: this.#contextId,
      agentId: this.#agentId,
      timestamp: isoTime(this.#options.now()),
      iteration: this.#iteration,
      callId: `${this.#iteration}:${delta.index}`,
      index: delta.index,
      arguments: delta.arguments ?? '',
      ...(delta.name ? { toolName: delta.name } : {}),
    };
  }

  /** Discards the text so far: the next delta replaces it. */
  #discard(reason: string | undefined): AgentEvent {
    const discarded: AgentEvent = {
      kind: 'internal:llm-attempt-discarded',
      taskId: this.#taskId,
      contextId: this.#contextId,
      agentId: this.#agentId,
      timestamp: isoTime(this.#options.now()),
      iteration: this.#iteration,
      attempt: this.#attempt,
      ...(reason !== undefined && { reason }),
    };
    this.#attempt++;
    this.#shown.clear();
    return discarded;
  }
}

/**
 * The events of one record, in order: a pure projection, the same for live turns, resumed turns and replays. Only the
 * artifact of `llm.done` depends on the emitted deltas: if they are a prefix of the text, it has the rest,
 * usually empty; otherwise the whole text.
 */
export function eventsOf(
  before: LoopState | undefined,
  record: JournalRecord,
  options: ProjectionOptions,
): readonly AgentEvent[] {
  const { to = new Projection() } = options;
  if (record.type === 'turn.started') {
    to.begin(record, record.agentId, { record, options });
    return to.started(record);
  }
  const kind = before && kindOf(record.type);
  if (!kind) return [];
  to.begin(before.turn, before.agentId, { record, options });
  return kind.events(to, before, record);
}

const piecesBetweenJoins = 256;

/** A flat string and its offset in the text. */
interface Block {
  readonly from: number;
  readonly text: string;
}

/** The block created last, by any text. */
let newest: WeakRef<Block> | undefined;

/** A turn's events and its store accumulate the same answer in parallel: they share its blocks. */
function blockOf(from: number, text: string): Block {
  const known = newest?.deref();
  if (known !== undefined && known.from === from && known.text === text) return known;
  const block = { from, text };
  newest = new WeakRef(block);
  return block;
}

/**
 * A growing string in memory proportional to its length: at most 255 chunks are kept as they came, all earlier ones in flat
 * blocks. With `+=` V8 would keep every chunk, and about 50 bytes for each, until the string is read; reading a slice
 * would flatten the whole text, once for each slice that its reader keeps.
 */
export class GrowingText {
  #blocks: Block[] = [];
  /** The number of characters in the blocks. */
  #joined = 0;
  #pieces: string[] = [];
  #length = 0;

  get isEmpty(): boolean {
    return this.#length === 0;
  }

  /** In UTF-16 units, as a string's length. */
  get length(): number {
    return this.#length;
  }

  /** Ignores empty chunks. */
  add(piece: string): void {
    if (piece === '') return;
    this.#pieces.push(piece);
    this.#length += piece.length;
    if (this.#pieces.length < piecesBetweenJoins) return;
    this.#blocks.push(blockOf(this.#joined, this.#pieces.join('')));
    this.#joined = this.#length;
    this.#pieces = [];
  }

  clear(): void {
    if (this.#length === 0) return;
    this.#blocks = [];
    this.#joined = 0;
    this.#pieces = [];
    this.#length = 0;
  }

  /** The text between two offsets. Near the end the cost depends on the slice, not on the whole text. */
  slice(from: number, to: number = this.#length): string {
    const parts: string[] = [];
    let begin = this.#length;
    const take = (text: string, at: number) => {
      begin = at;
      if (at < to) parts.push(text.slice(Math.max(0, from - at), to - at));
    };
    for (let index = this.#pieces.length - 1; index >= 0 && begin > from; index--) {
      const piece = this.#pieces[index] ?? '';
      take(piece, begin - piece.length);
    }
    for (let index = this.#blocks.length - 1; index >= 0 && begin > from; index--) {
      const block = this.#blocks[index];
      if (block) take(block.text, block.from);
    }
    return parts.reverse().join('');
  }

  toString(): string {
    return this.#blocks.map(({ text }) => text).join('') + this.#pieces.join('');
  }
}

/** The events of a turn's signals, in order. */
export function projectEvents(options: EventProjectorOptions): OperatorFunction<Signal, AgentEvent> {
  return (source) =>
    defer(() => {
      const projector = new EventProjector(options);
      return source.pipe(mergeMap((signal) => projector.project(signal)));
    });
}

import type { AgentEvent } from '../core/contracts/index.ts';
import type { ShownStep } from './shown-steps.ts';
import {
  assertStreamOptions,
  isRefusalCode,
  isRetryableCode,
  type Shown,
  type StreamOptions,
  shownOf,
} from './stream-options.ts';
import { TurnReader } from './turn-reader.ts';

/** An event of a plain event stream, as `EventSource` reads it. */
export interface PlainEvent {
  /** The `event:` line, which listeners of `EventSource` are called by. */
  readonly event:
    | 'task'
    | 'iteration'
    | 'iteration-end'
    | 'text'
    | 'reasoning'
    | 'call'
    | 'call-input'
    | 'call-ready'
    | 'call-update'
    | 'call-end'
    | 'call-void'
    | 'question'
    | 'artifact'
    | 'agent'
    | 'end';
  /** The cursor, on the last event of what a record gives: a reader that reconnects sends it back as `Last-Event-ID`. */
  readonly id?: string;
  /** JSON, by the kind of event. */
  readonly data: Readonly<Record<string, unknown>>;
}

/**
 * The events of a plain event stream for the events of one turn: a function for one stream, called with each event in order. Pure. `text` and `reasoning` have the
 * `id` of what they belong to and are appended to it; with `reset: true` they replace it. Ids of calls and questions are `<taskId>/<id>`. The last event is
 * `end`, with `state`, and `code` and `message` of an error: the state of the turn; `lost` where this process lost it, with `retryable`; `refused` where there is no
 * such turn, or it is of another message. Holds the open iteration. Errors: `INVALID_CONFIG`.
 */
export function plainEvents(options: StreamOptions = {}): (event: AgentEvent) => readonly PlainEvent[] {
  assertStreamOptions('plainEvents', options, {});
  const encoder = new PlainEncoder(options);
  return (event) => encoder.encode(event);
}

export class PlainEncoder {
  readonly #shown: Shown;
  readonly #reader: TurnReader;
  /** Texts of which the reader has pieces: those of this stream. */
  readonly #begun = new Set<string>();

  constructor(options: StreamOptions) {
    this.#shown = shownOf(options);
    this.#reader = new TurnReader(this.#shown);
  }

  encode(event: AgentEvent): readonly PlainEvent[] {
    const events = this.#reader.read(event).flatMap((step) => this.#events(step));
    const last = events.at(-1);
    if (!last || event.cursor === undefined) return events;
    return [...events.slice(0, -1), { ...last, id: event.cursor }];
  }

  lost(error: unknown): readonly PlainEvent[] {
    return this.#reader.lost(error).flatMap((step) => this.#events(step));
  }

  #events(step: ShownStep): readonly PlainEvent[] {
    switch (step.type) {
      case 'begin':
        return this.#shown.from === undefined
          ? [{ event: 'task', data: { taskId: step.taskId, contextId: step.contextId } }]
          : [];
      case 'text':
      case 'reasoning':
        return [this.#piece(step.type, step.of, step.text)];
      case 'text-end':
      case 'reasoning-end':
        return [];
      case 'call-end': {
        const { type: event, code, ...data } = step;
        const error = code === undefined ? { success: true } : { success: false, ...this.#errorOf(code) };
        return [{ event, data: { ...data, ...error } }];
      }
      case 'void': {
        const { texts, calls, fresh } = step;
        for (const of of texts) this.#begun.delete(of);
        const says = fresh.flatMap((each) => this.#events(each));
        const isSaid = (of: string) => says.some(({ data }) => data['id'] === of);
        const emptied = texts.map(baseOf).filter((of) => !isSaid(of));
        return [
          ...emptied.map((of) => this.#reset(of)),
          ...calls.map((id): PlainEvent => ({ event: 'call-void', data: { id } })),
          ...says.map((each) => (texts.map(baseOf).includes(String(each.data['id'])) ? asReset(each) : each)),
        ];
      }
      case 'question':
        return [{ event: 'question', data: { ...step.question } }];
      case 'end': {
        const { type: event, code, ...data } = step;
        const { state, questions } = data;
        const lost = code !== undefined && isRefusalCode(code) ? 'refused' : 'lost';
        const { cursor: _, ...shown } = { ...data, state: state === 'working' ? lost : state };
        const retryable = state === 'working' && code !== undefined ? { retryable: isRetryableCode(code) } : {};
        const error = code === undefined ? {} : this.#errorOf(code);
        return [{ event, data: { ...shown, questions, ...error, ...retryable } }];
      }
      default: {
        const { type: event, ...data } = step;
        return [{ event, data }];
      }
    }
  }

  #errorOf(code: Parameters<Shown['errorText']>[0]['code']): Readonly<Record<string, unknown>> {
    return { code, message: this.#shown.errorText({ code }) };
  }

  /** A reader that comes back may have a part of the text: it is sent anew. */
  #piece(event: 'text' | 'reasoning', id: string, text: string): PlainEvent {
    const isFirst = !this.#begun.has(id);
    this.#begun.add(id);
    const reset = isFirst && this.#shown.from !== undefined ? { reset: true } : {};
    return { event, data: { id, text, ...reset } };
  }

  #reset(id: string): PlainEvent {
    return { event: /\/reasoning-\d+$/.test(id) ? 'reasoning' : 'text', data: { id, text: '', reset: true } };
  }
}

/** The id of text or reasoning without the number of its attempt. */
function baseOf(id: string): string {
  return id.replace(/(\/(?:answer|reasoning)-\d+)\.\d+$/, '$1');
}

function asReset(event: PlainEvent): PlainEvent {
  return { ...event, data: { ...event.data, reset: true } };
}

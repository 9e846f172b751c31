import type { StreamResponse } from '@a2a-js/sdk';
import type { Clock } from '../../core/contracts/index.ts';

/** An open stream of updates of one task. */
export interface TaskStream {
  readonly updates: AsyncIterable<StreamResponse>;
  /** Closes the connection. */
  readonly close: () => void;
}

/**
 * The streams that messages opened, by the id of the message, until they are read: a step of the turn sends the message, and the next
 * one follows its task. Nothing is read in between, so the socket holds back what comes. One that is not taken within `keepMs` is closed.
 */
export class TaskStreams {
  readonly #clock: Clock;
  readonly #keepMs: number;
  readonly #kept = new Map<string, { readonly stream: TaskStream; readonly forget: () => void }>();

  constructor(clock: Clock, keepMs: number) {
    this.#clock = clock;
    this.#keepMs = keepMs;
  }

  keep(messageId: string, stream: TaskStream): void {
    this.drop(messageId);
    this.#kept.set(messageId, { stream, forget: this.#clock.schedule(this.#keepMs, () => this.drop(messageId)) });
  }

  /** Gives it once: whoever takes it closes it. */
  take(messageId: string): TaskStream | undefined {
    const kept = this.#kept.get(messageId);
    this.#kept.delete(messageId);
    kept?.forget();
    return kept?.stream;
  }

  drop(messageId: string): void {
    this.take(messageId)?.close();
  }
}

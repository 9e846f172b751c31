import { createHash, randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { StreamResponse } from '@a2a-js/sdk';
import { V03PushNotificationSerializer } from '@a2a-js/sdk/compat/v0_3/server';
import type { Logger } from '../../../core/config.ts';
import { AgentLoopError, nameOf } from '../../../core/errors.ts';
import type { PushEntry, PushProgress } from '../../../stores/push/push-store.ts';
import { isLegacy } from '../http/protocol-version.ts';
import type { PushOptions } from './push-options.ts';
import { type Notification, type PushOutcome, sendNotification } from './push-sender.ts';
import { cursorOf, type TaskSource, taskUpdates, wholeTask } from './task-updates.ts';

export interface DeliveryOptions extends TaskSource {
  readonly push: PushOptions;
  readonly logger: Logger;
}

/** How long a delivery stays with a process that gives no sign of life. */
const leaseMs = 30_000;
const renewEveryMs = 10_000;
/** How often deliveries of processes that died are looked for. */
const lookEveryMs = 10_000;
const firstPauseMs = 500;
const longestPauseMs = 60_000;

/**
 * Delivers notifications: those of registrations made here, and those that another process has left. At least once: what was posted
 * and not recorded yet when a process dies is posted again, with the same id. In order, one at a time for each registration; a
 * receiver that is down holds up its own only.
 */
export class PushDelivery {
  readonly #options: DeliveryOptions;
  readonly #owner = randomUUID();
  readonly #stop = new AbortController();
  readonly #running = new Set<Promise<void>>();
  #cancelLook: (() => void) | undefined;

  constructor(options: DeliveryOptions) {
    setMaxListeners(0, this.#stop.signal);
    this.#options = options;
  }

  /** Looks for deliveries now, and then again and again, until `close`. */
  start(): void {
    void this.take();
    this.#cancelLook = this.#options.clock.schedule(lookEveryMs, () => this.start());
  }

  /** Begins what may be delivered now, of one task or of all. Never rejects. */
  async take(taskId?: string): Promise<void> {
    const { push, logger } = this.#options;
    const limit = (push.concurrency ?? 500) - this.#running.size;
    if (this.#stop.signal.aborted || limit < 1) return;
    try {
      const claim = { owner: this.#owner, leaseMs, limit, ...(taskId !== undefined && { taskId }) };
      for (const entry of await push.store.claim(claim)) this.#run(entry);
    } catch (thrown) {
      logger.warn('push deliveries cannot be looked for', { code: codeOf(thrown) });
    }
  }

  /** Stops, and leaves what is not delivered to others. */
  async close(): Promise<void> {
    this.#cancelLook?.();
    this.#stop.abort();
    await Promise.all(this.#running);
  }

  #run(entry: PushEntry): void {
    const { logger } = this.#options;
    const { taskId, configId } = entry;
    const delivery = new Delivery(entry, { ...this.#options, owner: this.#owner, stop: this.#stop.signal });
    const running = delivery.run().catch((thrown: unknown) => {
      logger.warn('push delivery failed', { taskId, configId, code: codeOf(thrown) });
    });
    this.#running.add(running);
    void running.finally(() => this.#running.delete(running));
  }
}

interface RunOptions extends DeliveryOptions {
  readonly owner: string;
  readonly stop: AbortSignal;
}

/** The notifications of one registration, for as long as this process holds it. */
class Delivery {
  readonly #entry: PushEntry;
  readonly #options: RunOptions;
  /** Aborted when the server stops, or when the registration is taken away. */
  readonly #over = new AbortController();
  /** What the receiver has had. */
  #cursor: string | undefined;
  /** Pieces of text that it has had since. */
  #pieces = 0;

  constructor(entry: PushEntry, options: RunOptions) {
    this.#entry = entry;
    this.#options = options;
    this.#cursor = entry.cursor;
  }

  async run(): Promise<void> {
    const { stop, clock } = this.#options;
    const updates = taskUpdates(this.#entry.taskId, this.#entry.cursor, this.#options);
    const end = () => {
      this.#over.abort();
      void updates.return(undefined);
    };
    stop.addEventListener('abort', end);
    const renew = () => {
      cancel = clock.schedule(renewEveryMs, renew);
      this.#report({ type: 'held', leaseMs }).then(
        (isOurs) => isOurs || end(),
        () => {},
      );
    };
    let cancel = clock.schedule(renewEveryMs, renew);
    try {
      await this.#deliverAll(updates);
    } catch (thrown) {
      if (codeOf(thrown) !== 'NOT_FOUND') throw thrown;
      await this.#report({ type: 'over' });
    } finally {
      cancel();
      stop.removeEventListener('abort', end);
      void updates.return(undefined);
      if (stop.aborted) await this.#report({ type: 'parked', afterMs: 0 }).catch(() => {});
    }
  }

  async #deliverAll(updates: AsyncGenerator<StreamResponse>): Promise<void> {
    for await (const update of updates) {
      // The receiver has had the task, and what changed of it comes behind.
      if (update.payload?.$case === 'task' && this.#entry.cursor !== undefined) continue;
      const isTaken = await this.#deliver(update);
      if (!isTaken) return;
      await this.#pause(this.#options.push.intervalMs ?? 250);
    }
    if (!this.#over.signal.aborted) await this.#report({ type: 'over' });
  }

  /** False where the delivery is over. */
  async #deliver(update: StreamResponse): Promise<boolean> {
    const { push, logger } = this.#options;
    const { taskId, configId } = this.#entry;
    const notification = await this.#notificationOf(update);
    const attempts = push.attempts ?? 10;
    for (let attempt = 1; !this.#over.signal.aborted; attempt++) {
      const outcome = await this.#post(notification);
      if (outcome.type === 'taken') return this.#taken(update);
      if (this.#over.signal.aborted) return false;
      const { status } = outcome.type === 'failed' ? outcome : {};
      if (outcome.type === 'gone' || attempt >= attempts) {
        logger.warn('push registration given up', { taskId, configId, attempts: attempt, ...(status && { status }) });
        await this.#report({ type: 'over' });
        return false;
      }
      await this.#pause(pauseOf(outcome, attempt));
    }
    return false;
  }

  #taken(update: StreamResponse): Promise<boolean> {
    const cursor = cursorOf(update);
    this.#pieces = cursor === undefined ? this.#pieces + 1 : 0;
    this.#cursor = cursor ?? this.#cursor;
    return this.#report({ type: 'held', leaseMs });
  }

  #post(notification: Notification): Promise<PushOutcome> {
    const { push, clock } = this.#options;
    return sendNotification(this.#entry, notification, { ...push, clock, signal: this.#over.signal });
  }

  /** In 0.3 a notification is the task as it stands; since 1.0 it is what a stream sends. */
  async #notificationOf(update: StreamResponse): Promise<Notification> {
    const { taskId, configId, version } = this.#entry;
    const { body, contentType } = isLegacy(version)
      ? new V03PushNotificationSerializer().serialize(update, await wholeTask(taskId, this.#options))
      : { body: JSON.stringify(StreamResponse.toJSON(update)), contentType: 'application/a2a+json' };
    const cursor = cursorOf(update);
    const place = cursor ?? `${this.#cursor ?? ''}.${this.#pieces + 1}.${hashOf(body)}`;
    return { body, contentType, id: `${configId}:${place}` };
  }

  async #report(progress: PushProgress): Promise<boolean> {
    const { push, owner } = this.#options;
    const cursor = this.#cursor === undefined ? {} : { cursor: this.#cursor };
    return push.store.update(this.#entry, owner, { ...progress, ...cursor });
  }

  #pause(ms: number): Promise<void> {
    const { signal } = this.#over;
    return new Promise((resolve) => {
      if (signal.aborted) return resolve();
      const go = () => {
        cancel();
        signal.removeEventListener('abort', go);
        resolve();
      };
      const cancel = this.#options.clock.schedule(ms, go);
      signal.addEventListener('abort', go);
    });
  }
}

/** Twice as long each time, and up to half of it less, so that many do not come at once. */
function pauseOf(outcome: PushOutcome, attempt: number): number {
  const pause = Math.min(firstPauseMs * 2 ** (attempt - 1), longestPauseMs);
  const asked = outcome.type === 'failed' ? (outcome.retryAfterMs ?? 0) : 0;
  return Math.min(Math.max(pause * (0.5 + Math.random() / 2), asked), 10 * longestPauseMs);
}

function hashOf(body: string): string {
  return createHash('sha256').update(body).digest('hex').slice(0, 12);
}

function codeOf(thrown: unknown): string {
  return AgentLoopError.isInstance(thrown) ? thrown.code : nameOf(thrown);
}

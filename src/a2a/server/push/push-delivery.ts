import { createHash, randomUUID } from 'node:crypto';
import { StreamResponse, type Task } from '@a2a-js/sdk';
import { V03PushNotificationSerializer } from '@a2a-js/sdk/compat/v0_3/server';
import type { Clock, Logger, TaskStateStore } from '../../../core/contracts/index.ts';
import { foldRecords, observeTask } from '../../../core/journal/index.ts';
import { onAbort, pause, Timer } from '../../../core/streams/index.ts';
import { RecentMap } from '../../../recent-map.ts';
import type { PushEntry, PushKey, PushProgress } from '../../../stores/push/push-store.ts';
import { turnExtension } from '../../extensions.ts';
import { codeOf } from '../../protocol-errors.ts';
import { ResponseStream } from '../../response-stream.ts';
import { streamUpdates } from '../../stream-updates.ts';
import { taskOf } from '../../task-snapshot.ts';
import { isLegacy } from '../refusal.ts';
import { type Notification, type PushOptions, type PushOutcome, sendNotification } from './push-sender.ts';

interface DeliveryOptions extends TaskSource {
  readonly push: PushOptions;
  readonly logger: Logger;
}

/** How long the lease of a delivery lasts without a renewal. */
const leaseMs = 30_000;
const renewEveryMs = 10_000;
/** How often deliveries of processes that died, and those that gave their place up, are looked for. */
const lookEveryMs = 10_000;
const firstPauseMs = 500;
const longestPauseMs = 60_000;

/**
 * Delivers notifications: those of registrations made here, and those that another process has left. At least once: what was posted
 * and not recorded yet when a process dies is posted again, with the same id. In order, one at a time for each registration; a
 * receiver that is down holds up its own only. Where there are more registrations than places, those whose tasks have been silent for
 * longest, or whose receivers have been down for longest, give theirs up for a while.
 */
export class PushDelivery {
  readonly #options: DeliveryOptions;
  readonly #stop = new AbortController();
  readonly #failures = new FailureCounter();
  /** Those that have a place. */
  readonly #placed = new Set<Delivery>();
  readonly #running = new Set<Promise<void>>();
  readonly #nextLook: Timer;

  constructor(options: DeliveryOptions) {
    this.#options = options;
    this.#nextLook = new Timer(options.clock);
  }

  /** Looks for deliveries now, and then again and again, until `close`. */
  start(): void {
    if (this.#stop.signal.aborted) return;
    void this.take();
    this.#nextLook.set(lookEveryMs, () => this.start());
  }

  /** Begins what may be delivered now, of one task or of all. Never rejects. */
  async take(taskId?: string): Promise<void> {
    const { push, logger } = this.#options;
    const limit = this.#free + this.#silent().length;
    if (this.#stop.signal.aborted || limit < 1) return;
    try {
      // Another one for each claim: who held a registration before it was replaced holds it no more.
      const owner = randomUUID();
      const claim = { owner, leaseMs, limit, ...(taskId !== undefined && { taskId }) };
      for (const entry of await push.store.claim(claim)) this.#run(new Delivery(entry, this.#runOptions(owner)));
    } catch (thrown) {
      logger.warn('recovery of push deliveries failed', { code: codeOf(thrown) });
    }
  }

  /** Posts nothing more here of a registration that was replaced or taken away. */
  drop({ taskId, configId }: PushKey): void {
    for (const delivery of this.#placed) {
      const { key } = delivery;
      if (key.taskId === taskId && key.configId === configId) delivery.park();
    }
  }

  /** Stops, and leaves what is not delivered to others. */
  async close(): Promise<void> {
    this.#nextLook.close();
    this.#stop.abort();
    await Promise.all(this.#running);
  }

  get #free(): number {
    return (this.#options.push.concurrency ?? 500) - this.#placed.size;
  }

  /** Those that wait for their tasks, or to try again, the one that has waited longest first. */
  #silent(): readonly Delivery[] {
    const since = ({ silentSince = 0 }: Delivery) => silentSince;
    return [...this.#placed].filter(({ silentSince }) => silentSince !== undefined).sort((a, b) => since(a) - since(b));
  }

  #makeRoom(): void {
    const [longest] = this.#silent();
    longest?.park();
    if (longest) this.#placed.delete(longest);
  }

  #runOptions(owner: string): RunOptions {
    return { ...this.#options, owner, stop: this.#stop.signal, failures: this.#failures };
  }

  #run(delivery: Delivery): void {
    const { logger } = this.#options;
    this.drop(delivery.key);
    if (this.#free < 1) this.#makeRoom();
    const hasPlace = this.#free > 0;
    if (hasPlace) this.#placed.add(delivery);
    // What was silent when the claim was made may not be any more.
    const running = (hasPlace ? delivery.run() : delivery.release()).catch((thrown: unknown) => {
      logger.warn('push delivery failed', { ...delivery.key, code: codeOf(thrown) });
    });
    this.#running.add(running);
    void running.finally(() => {
      this.#placed.delete(delivery);
      this.#running.delete(running);
    });
  }
}

interface RunOptions extends DeliveryOptions {
  readonly owner: string;
  readonly stop: AbortSignal;
  readonly failures: FailureCounter;
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
  #isParked = false;
  #silentSince: number | undefined;
  /** Not before then the receiver is asked again. */
  #nextTryAt = 0;

  constructor(entry: PushEntry, options: RunOptions) {
    this.#entry = entry;
    this.#options = options;
    this.#cursor = entry.cursor;
  }

  get key(): PushKey {
    const { taskId, configId } = this.#entry;
    return { taskId, configId };
  }

  /** Since when there has been nothing to post; `undefined` while there is. */
  get silentSince(): number | undefined {
    return this.#silentSince;
  }

  /** Ends, and leaves the registration to whoever looks next. */
  park(): void {
    this.#isParked = true;
    this.#over.abort();
  }

  async run(): Promise<void> {
    const { stop, clock } = this.#options;
    const updates = taskUpdates(this.#entry.taskId, this.#entry.cursor, this.#options);
    const end = () => this.#over.abort();
    const leave = () => void updates.return(undefined);
    this.#over.signal.addEventListener('abort', leave);
    const stopListening = onAbort(stop, end);
    const nextRenewal = new Timer(clock);
    const renew = () => {
      nextRenewal.set(renewEveryMs, renew);
      this.#report({ type: 'held', leaseMs }).then(
        (isOurs) => isOurs || end(),
        () => {},
      );
    };
    nextRenewal.set(renewEveryMs, renew);
    try {
      await this.#deliverAll(updates);
    } catch (thrown) {
      if (codeOf(thrown) !== 'NOT_FOUND') throw thrown;
      await this.#report({ type: 'over' });
    } finally {
      nextRenewal.close();
      stopListening();
      leave();
      if (stop.aborted || this.#isParked) await this.release().catch(() => {});
    }
  }

  /** Leaves the registration to whoever looks for it next. */
  async release(): Promise<void> {
    const { stop, clock } = this.#options;
    const afterMs = stop.aborted ? 0 : Math.max(lookEveryMs, this.#nextTryAt - clock.now());
    await this.#report({ type: 'parked', afterMs });
  }

  async #deliverAll(updates: AsyncGenerator<StreamResponse>): Promise<void> {
    // The first says how the task stands, so it is no silence to wait for it.
    let next = await updates.next();
    while (!next.done && !this.#over.signal.aborted) {
      // The receiver has had the task, and what changed of it comes behind.
      if (next.value.payload?.$case !== 'task' || this.#entry.cursor === undefined) {
        const isTaken = await this.#deliver(next.value);
        if (!isTaken) return;
        await this.#pause(this.#options.push.intervalMs ?? 250);
      }
      this.#silentSince = this.#options.clock.now();
      next = await updates.next();
      this.#silentSince = undefined;
    }
    if (!this.#over.signal.aborted) await this.#report({ type: 'over' });
  }

  /** False where the delivery is over. */
  async #deliver(update: StreamResponse): Promise<boolean> {
    const { push, logger, clock, failures } = this.#options;
    const notification = await this.#notificationOf(update);
    while (!this.#over.signal.aborted) {
      const outcome = await this.#post(notification);
      if (outcome.type === 'taken') return this.#taken(update);
      if (this.#over.signal.aborted) return false;
      const { status } = outcome.type === 'failed' ? outcome : {};
      const attempts = failures.add(this.key);
      if (outcome.type === 'gone' || attempts >= (push.attempts ?? 10)) {
        failures.forget(this.key);
        logger.warn('push registration dropped', { ...this.key, attempts, ...(status && { status }) });
        await this.#report({ type: 'over' });
        return false;
      }
      const pauseMs = pauseOf(outcome, attempts);
      this.#nextTryAt = clock.now() + pauseMs;
      this.#silentSince = clock.now();
      await this.#pause(pauseMs);
      this.#silentSince = undefined;
    }
    return false;
  }

  #taken(update: StreamResponse): Promise<boolean> {
    this.#options.failures.forget(this.key);
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
    return pause(ms, this.#options.clock, this.#over.signal);
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

/** The most registrations that are counted; the one that failed first is forgotten first. */
const mostCounted = 10_000;

/** Counts the tries of a notification that failed here in a row, also where its delivery begins anew. Memory: 10,000 registrations. */
class FailureCounter {
  readonly #counts = new RecentMap<string, number>(mostCounted);

  /** Counts one more, and gives how many there are. */
  add(key: PushKey): number {
    const name = keyOf(key);
    const count = (this.#counts.get(name) ?? 0) + 1;
    this.#counts.set(name, count);
    return count;
  }

  forget(key: PushKey): void {
    this.#counts.delete(keyOf(key));
  }
}

function keyOf({ taskId, configId }: PushKey): string {
  return JSON.stringify([taskId, configId]);
}

interface TaskSource {
  readonly store: TaskStateStore;
  readonly clock: Clock;
  readonly storeDeadlineMs: number;
}

/** What a task sends from a cursor on, up to its end, whichever process runs it; the task first where there is no cursor. */
function taskUpdates(taskId: string, from: string | undefined, source: TaskSource): AsyncGenerator<StreamResponse> {
  const { store, clock, storeDeadlineMs: ms } = source;
  const streaming = {
    now: () => clock.now(),
    from,
    historyLength: undefined,
    toolEvents: false,
    untilInput: false,
    beyond: 0,
  };
  return new ResponseStream(observeTask(store, taskId, { clock, ms }).pipe(streamUpdates(streaming)));
}

/** The whole task as it stands. Errors: `NOT_FOUND`, `UNAVAILABLE`. */
async function wholeTask(taskId: string, { store }: TaskSource): Promise<Task> {
  const records = await store.read(taskId);
  return taskOf({ records, state: foldRecords(records) });
}

/** The position in the journal after an update; absent for pieces of text. */
function cursorOf({ payload }: StreamResponse): string | undefined {
  if (payload === undefined || payload.$case === 'message') return undefined;
  const value: unknown = payload.value.metadata?.[turnExtension];
  const cursor = typeof value === 'object' && value !== null && 'cursor' in value ? value.cursor : undefined;
  return typeof cursor === 'string' ? cursor : undefined;
}

import type { StreamResponse, Task } from '@a2a-js/sdk';
import type { Clock } from '../../core/contracts/index.ts';
import type { RemoteConnection, RequestScope } from './remote-connection.ts';
import type { RemoteReference } from './remote-progress.ts';
import { Backoff, isPassing, retrying } from './retrying.ts';
import type { TaskStream } from './task-streams.ts';

export interface FollowRemoteOptions extends RequestScope {
  readonly clock: Clock;
  readonly silenceMs: number;
}

export interface FollowedUpdate {
  readonly update: StreamResponse;
  /**
   * `sent`: of the stream that the message opened, unbroken so far. `asked`: the task as the server keeps it. `subscribed`: of a later
   * stream, which may repeat or lack what was written while it was opened.
   */
  readonly from: 'sent' | 'asked' | 'subscribed';
}

/**
 * What happens to a task, for as long as it is read: first on the stream that its message opened; where that breaks, ends early or falls
 * silent, and where there is none, the server is asked for the task and the stream is opened anew. Errors: what the server answers;
 * `PROVIDER_…` once it could not be reached for `silenceMs`.
 */
export async function* followRemoteTask(
  connection: RemoteConnection,
  { taskId, messageId = '' }: RemoteReference & { readonly taskId: string },
  options: FollowRemoteOptions,
): AsyncGenerator<FollowedUpdate, never> {
  const { clock, signal, silenceMs } = options;
  const backoff = new Backoff();
  const sent = connection.streams.take(messageId);
  if (sent) for await (const update of read(sent, options)) yield { update, from: 'sent' };
  let known = '';
  for (let awaySince: number | undefined; ; await backoff.pause(clock, signal)) {
    const askedAt = clock.now();
    let stream: TaskStream | undefined;
    try {
      const value = await connection.task(taskId, options);
      const now = progressOf(value);
      if (now !== known) backoff.reset();
      known = now;
      yield { update: { payload: { $case: 'task', value } }, from: 'asked' };
      stream = await connection.follow(taskId, options);
      awaySince = undefined;
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      // From the first request in vain: a server that had nothing to say for a while was not away.
      awaySince ??= askedAt;
      if (!isPassing(error) || clock.now() - awaySince >= silenceMs) throw error;
    }
    if (!stream) continue;
    for await (const update of read(stream, options)) {
      if (update.payload?.$case !== 'task') backoff.reset();
      yield { update, from: 'subscribed' };
    }
  }
}

/** Changes with every update that a server keeps. */
function progressOf({ status, artifacts }: Task): string {
  const parts = artifacts.map((artifact) => artifact.parts.length).join();
  return `${status?.state} ${status?.message?.messageId} ${status?.timestamp} ${parts}`;
}

/** Until the stream ends, breaks or is silent for `silenceMs`: the task itself says more. Closed when its reader leaves. */
async function* read(
  { updates, close }: TaskStream,
  { clock, silenceMs, signal }: FollowRemoteOptions,
): AsyncGenerator<StreamResponse> {
  let stop = clock.schedule(silenceMs, close);
  signal.addEventListener('abort', close, { once: true });
  try {
    if (signal.aborted) throw signal.reason;
    for await (const update of updates) {
      stop();
      yield update;
      stop = clock.schedule(silenceMs, close);
    }
  } catch {
    if (signal.aborted) throw signal.reason;
  } finally {
    stop();
    signal.removeEventListener('abort', close);
    close();
  }
}

/** A server may tell its subscribers of an end before it has written it down. */
const settleMs = 5_000;

/**
 * The task as the server keeps it at its end, to compare with what was streamed. `undefined` where the server keeps no tasks, or does
 * not show the end within five seconds: what was streamed counts then. Errors: as `followRemoteTask`, unless the stream was unbroken.
 */
export async function taskAtEnd(
  connection: RemoteConnection,
  taskId: string,
  {
    isEnd,
    isUnbroken,
    ...options
  }: FollowRemoteOptions & { readonly isEnd: (task: Task) => boolean; readonly isUnbroken: boolean },
): Promise<Task | undefined> {
  const { clock, signal, silenceMs } = options;
  const backoff = new Backoff();
  for (const until = clock.now() + settleMs; ; await backoff.pause(clock, signal)) {
    try {
      const task = await retrying(() => connection.task(taskId, options), { clock, signal, forMs: silenceMs });
      if (isEnd(task)) return task;
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (isUnbroken || !isPassing(error)) return undefined;
      throw error;
    }
    if (clock.now() >= until) return undefined;
  }
}

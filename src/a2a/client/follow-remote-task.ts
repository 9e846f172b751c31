import type { StreamResponse } from '@a2a-js/sdk';
import type { Clock } from '../../core/clock.ts';
import { AgentLoopError } from '../../core/errors.ts';
import type { RemoteConnection, RequestScope } from './remote-connection.ts';

export interface FollowRemoteOptions extends RequestScope {
  readonly clock: Clock;
  readonly silenceMs: number;
}

const firstWaitMs = 250;
const longestWaitMs = 5_000;

/**
 * The task as it is, then what happens to it, for as long as it is read. Where the stream breaks, ends early or falls silent, or where
 * there is none, the task is asked for and the stream opened anew. Errors: what the other side says against it; `PROVIDER_…` once it
 * could not be reached for `silenceMs`.
 */
export async function* followRemoteTask(
  connection: RemoteConnection,
  taskId: string,
  options: FollowRemoteOptions,
): AsyncGenerator<StreamResponse, never> {
  const { clock, signal, silenceMs } = options;
  let heard = clock.now();
  let waitMs = firstWaitMs;
  for (;;) {
    try {
      const value = await connection.task(taskId, options);
      heard = clock.now();
      yield { payload: { $case: 'task', value } };
    } catch (error) {
      const passing = AgentLoopError.isInstance(error) && error.retryable;
      if (signal.aborted || !passing || clock.now() - heard >= silenceMs) throw error;
    }
    for await (const update of openStream(connection, taskId, options)) {
      heard = clock.now();
      waitMs = firstWaitMs;
      yield update;
    }
    await pause(waitMs, clock, signal);
    waitMs = Math.min(waitMs * 2, longestWaitMs);
  }
}

/** Until it ends or breaks, for whatever reason: the task itself says more. Closed when its reader leaves. */
async function* openStream(
  connection: RemoteConnection,
  taskId: string,
  { clock, silenceMs, signal, traceContext }: FollowRemoteOptions,
): AsyncGenerator<StreamResponse> {
  const own = new AbortController();
  const watch = { stop: clock.schedule(silenceMs, () => own.abort()) };
  try {
    const updates = await connection.follow(taskId, { signal: AbortSignal.any([signal, own.signal]), traceContext });
    for await (const update of updates ?? []) {
      watch.stop();
      yield update;
      watch.stop = clock.schedule(silenceMs, () => own.abort());
    }
  } catch {
    if (signal.aborted) throw signal.reason;
  } finally {
    watch.stop();
    own.abort();
  }
}

function pause(ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.reject(signal.reason);
  return new Promise((resolve, reject) => {
    const leave = () => {
      stop();
      reject(signal.reason);
    };
    const stop = clock.schedule(ms, () => {
      signal.removeEventListener('abort', leave);
      resolve();
    });
    signal.addEventListener('abort', leave, { once: true });
  });
}

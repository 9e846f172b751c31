/**
 * The outcome of `work`, or a rejection as soon as `signal` is aborted, also where the work pays no heed to it; what it
 * still comes to is handed to `discard`.
 */
export function unlessAborted<T>(work: PromiseLike<T>, signal: AbortSignal, discard: (late: T) => unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    let left = false;
    const leave = () => {
      left = true;
      reject(signal.reason);
    };
    const dispose = async (late: T) => discard(late);
    if (signal.aborted) leave();
    else signal.addEventListener('abort', leave, { once: true });
    work.then(
      (value) => {
        signal.removeEventListener('abort', leave);
        if (left) dispose(value).catch(() => {});
        else resolve(value);
      },
      (error: unknown) => {
        signal.removeEventListener('abort', leave);
        reject(error);
      },
    );
  });
}

/** The values of a stream, until it ends or `signal` is aborted: then, and when the reader leaves, the stream is cancelled. */
export async function* partsOf<T>(stream: ReadableStream<T>, signal: AbortSignal): AsyncGenerator<T> {
  const reader = stream.getReader();
  const cancel = () => {
    // Ends a `read` that waits. Nobody is left to hear of a failure to close.
    reader.cancel(signal.reason).catch(() => {});
  };
  signal.addEventListener('abort', cancel, { once: true });
  try {
    if (signal.aborted) cancel();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    signal.removeEventListener('abort', cancel);
    cancel();
  }
}

/** What is done before the process goes. Neither may reject; each takes a bounded time. */
interface ExitFlush {
  /** Exports pending data, and continues to collect. */
  flush(): Promise<unknown>;
  /** Sends what waits, for the last time. */
  shutdown(): Promise<unknown>;
  /** Asked each time the event loop has run empty, which it does again after a flush: whether to flush. Has to say no in the end. */
  waiting(): boolean;
}

/** Who flushes on which signal. One listener serves all of a signal: the process may end by it only when each of them is done. */
const exitsOf = new Map<NodeJS.Signals, Set<ExitFlush>>();

/**
 * Flushes when the event loop runs empty, and on signals. Where nobody else listens to a signal, the process then ends by it, as it
 * would have without us, and a second one ends it at once; where somebody does, ending is theirs. `process.exit()` leaves no
 * time to flush: shut down before calling it. Returns what takes the listeners away.
 */
export function flushAtExit(exit: ExitFlush, signals: readonly NodeJS.Signals[]): () => void {
  const onBeforeExit = () => {
    if (exit.waiting()) void exit.flush();
  };
  process.on('beforeExit', onBeforeExit);
  for (const signal of signals) join(signal, exit);
  return () => {
    process.removeListener('beforeExit', onBeforeExit);
    for (const signal of signals) leave(signal, exit);
  };
}

function join(signal: NodeJS.Signals, exit: ExitFlush): void {
  const exits = exitsOf.get(signal) ?? new Set();
  exits.add(exit);
  if (exitsOf.has(signal)) return;
  exitsOf.set(signal, exits);
  process.on(signal, onSignal);
}

function leave(signal: NodeJS.Signals, exit: ExitFlush): void {
  const exits = exitsOf.get(signal);
  exits?.delete(exit);
  if (exits?.size !== 0) return;
  exitsOf.delete(signal);
  process.removeListener(signal, onSignal);
}

function onSignal(signal: NodeJS.Signals): void {
  const exits = [...(exitsOf.get(signal) ?? [])];
  if (process.listenerCount(signal) > 1) {
    for (const exit of exits) void exit.flush();
    return;
  }
  for (const exit of exits) leave(signal, exit);
  void Promise.all(exits.map((exit) => exit.shutdown())).then(() => process.kill(process.pid, signal));
}

/** Waits for the work, however it ends, but not longer than that. */
export function within(ms: number, work: Promise<unknown>): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    const done = () => {
      clearTimeout(timer);
      resolve();
    };
    work.then(done, done);
  });
}

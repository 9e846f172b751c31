/** Work before the process exits. Neither may reject; each takes a bounded time. */
interface ExitFlush {
  /** Exports pending data, and continues to collect. */
  flush(): Promise<unknown>;
  /** Exports all pending data, for the last time. */
  shutdown(): Promise<unknown>;
  /** Called each time the event loop has become empty, also after a flush: whether to flush. Must return false eventually. */
  waiting(): boolean;
}

/** The flushes of each signal, which share one listener: the process may exit only when all of them are done. */
const exitsOf = new Map<NodeJS.Signals, Set<ExitFlush>>();

/**
 * Flushes when the event loop becomes empty, and on signals. If the signal has no other listener, the process then exits by it, as it
 * would by default, and a second signal exits at once; with another listener, that one decides. `process.exit()` leaves no
 * time to flush: shut down before calling it. Returns a function that removes the listeners.
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

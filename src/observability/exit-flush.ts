/** What is done before the process goes. Neither may reject; each takes a bounded time. */
export interface ExitFlush {
  /** Sends what waits, and goes on collecting. Called again only where something waits. */
  flush(): Promise<unknown>;
  /** Sends what waits, for the last time. */
  shutdown(): Promise<unknown>;
  /** Whether anything has come to wait since the last flush. */
  waiting(): boolean;
}

/**
 * Flushes when the event loop runs empty, and on signals. Where nobody else listens to a signal, the process then ends by it, as it
 * would have without us, and a second one ends it at once; where somebody does, ending is theirs. `process.exit()` leaves no
 * time to flush: shut down before calling it. Returns what takes the listeners away.
 */
export function flushAtExit(exit: ExitFlush, signals: readonly NodeJS.Signals[]): () => void {
  const onBeforeExit = () => {
    if (exit.waiting()) void exit.flush();
  };
  const onSignal = (signal: NodeJS.Signals) => {
    if (process.listenerCount(signal) > 1) {
      void exit.flush();
      return;
    }
    stopListening();
    void exit.shutdown().then(() => process.kill(process.pid, signal));
  };
  const stopListening = () => {
    process.removeListener('beforeExit', onBeforeExit);
    for (const signal of signals) process.removeListener(signal, onSignal);
  };
  process.on('beforeExit', onBeforeExit);
  for (const signal of signals) process.on(signal, onSignal);
  return stopListening;
}

/** Waits until it is so, one round of the event loop after the other. Rejects after five seconds. */
export async function eventually(isSo: () => boolean): Promise<void> {
  const deadline = performance.now() + 5_000;
  while (!isSo()) {
    if (performance.now() > deadline) throw new Error(`still not so: ${String(isSo)}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

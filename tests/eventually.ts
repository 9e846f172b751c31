/** Waits until it is so, looking every few milliseconds. Rejects after twenty seconds. */
export async function eventually(isSo: () => boolean): Promise<void> {
  const deadline = performance.now() + 20_000;
  while (!isSo()) {
    if (performance.now() > deadline) throw new Error(`still not so: ${String(isSo)}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

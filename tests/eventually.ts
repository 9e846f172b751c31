/** Only ends a wait for what never happens: also on a busy machine, nothing that happens takes so long. Below the time limit of a test. */
export const patienceMs = 120_000;

/** Waits until it is so, looking every few milliseconds. */
export async function eventually(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    const so = isSo();
    if (so === true || (so !== false && (await so))) return;
    if (performance.now() > deadline) throw new Error(`still not so: ${String(isSo)}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

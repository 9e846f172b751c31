import { afterAll, afterEach } from '@jest/globals';

/** The time limit of a test, which jest.config.ts sets: for parts that require a deadline of their own. */
export const testLimitMs = 300_000;

interface Wait {
  readonly isSo: () => unknown;
  isOver: boolean;
}

const waits = new Set<Wait>();

/** Ends the waits that a test left when its time limit ended it, and says what it waited for. */
function endWaits(): void {
  const left = [...waits];
  waits.clear();
  for (const wait of left) wait.isOver = true;
  if (left.length > 0) throw new Error(`still not so: ${left.map(({ isSo }) => String(isSo)).join('; ')}`);
}
afterEach(endWaits);
afterAll(endWaits);

/** Waits until it is so, looking every few milliseconds. Only the time limit of the test ends it. */
export async function eventually(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const wait = { isSo, isOver: false };
  waits.add(wait);
  try {
    while (!wait.isOver) {
      const so = isSo();
      if (so === true || (so !== false && (await so))) return;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  } finally {
    waits.delete(wait);
  }
  // Nobody waits for it any more, and what would come next belongs to a test that is over.
  await new Promise<never>(() => {});
}

import { contenders } from '../contenders.ts';
import { engine } from '../engine.ts';
import { fakeModel } from '../fake-model.ts';
import { race } from '../measure.ts';
import { printRows, type Row, ratioRows } from '../table.ts';

const deltas = 20_000;

/** A turn that only streams, and what it holds of its text when the last piece has come. */
export async function measureDeltas(): Promise<void> {
  const timings = await race(contenders({ iterations: 0, deltas }));
  printRows(`${deltas.toLocaleString('en')} text deltas, per delta`, ratioRows(timings, deltas, 'target ≤ 2.5x bare'));
  const rows: Row[] = [];
  for (const store of [true, false]) {
    const { text, held } = await heldText(store);
    rows.push({
      figure: store ? 'engine, memory journal' : 'engine, no store',
      measured: `${kilobytes(held)} held for ${kilobytes(text)} of text`,
      target: 'bounded by the text',
    });
  }
  printRows(`Heap behind ${deltas.toLocaleString('en')} deltas, the answer still open`, rows);
}

/** Bytes, behind a full garbage collection. */
async function heldText(store: boolean): Promise<{ readonly text: number; readonly held: number }> {
  let before = 0;
  let held = 0;
  let count = 0;
  const run = engine(fakeModel({ iterations: 0, deltas }), {
    ...(store ? { keptTasks: 0 } : {}),
    onEvent(event) {
      if (event.kind !== 'artifact-update' || event.lastChunk) return;
      count++;
      if (count === 1) before = heapInUse();
      if (count === deltas) held = heapInUse() - before;
    },
  });
  const text = await run();
  return { text: text.length, held };
}

function heapInUse(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

function kilobytes(bytes: number): string {
  return `${Math.round(bytes / 1024).toLocaleString('en')} KiB`;
}

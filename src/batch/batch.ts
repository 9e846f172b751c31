import { resolve } from 'node:path';
import { Observable } from 'rxjs';
import { type BatchOptions, checkBatchOptions } from './batch-options.ts';
import type { BatchProgress } from './batch-progress.ts';
import { BatchRun, type BatchSource } from './batch-run.ts';

/**
 * Runs many prompts, one turn each: a batch. Items are strings or objects, from an array or from any, also asynchronous, iterable. An item that
 * ends becomes a row, which is written to `out` and emitted, in the order in which they end; before it the first progress, after it the last.
 *
 * The task of an item is named by a hash of the batch's `id` and the item's `key`. Started again with the same `id`, `out` and store, after any end
 * of the process, the batch continues: items with a row are skipped, turns that the store has are continued or give their result. Rows of items
 * that are suspended are replaced once they have their answers.
 *
 * Completes after the last progress, also where items failed. Errors: `INVALID_CONFIG`; `INVALID_INPUT` for a bad item and for two of one key;
 * `CONFLICT` for another prompt under the key of a row; those of the source, of the file and of the store. Before it errors, and before it
 * completes because of the budget, turns that run come to their end. Unsubscribing, and `signal`, stop them at once, so that they can be continued
 * where there is a store.
 *
 * At most `concurrency` turns run, and at most `window` items are read ahead. Memory: these, and for each item its key; for each row of an earlier
 * start a few numbers.
 */
export function runBatch<T = unknown, C = unknown>(
  items: BatchSource,
  options: BatchOptions<T, C>,
): Observable<BatchProgress<T>> {
  checkBatchOptions(options);
  const { out } = options;
  const id = options.id ?? (out === undefined ? crypto.randomUUID() : resolve(out));
  return new Observable((subscriber) => {
    const run = new BatchRun({ ...options, id }, subscriber);
    void run.run(items);
    return () => run.stop();
  });
}

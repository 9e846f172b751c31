import { backgroundClock, type Delta } from '../../core/contracts/index.ts';
import { Timer } from '../../core/streams/index.ts';
import { deltasJson, mergedDelta } from '../deltas.ts';
import { type ScriptRunner, taskKeys } from './lua-scripts.ts';

export interface DeltaFeedDeps {
  readonly scripts: ScriptRunner;
  readonly prefix: string;
}

/** The collected deltas of one task. */
interface Waiting {
  deltas: Delta[];
  /** Batches in flight. */
  underWay: number;
}

const collectMs = 20;
/** The number of batches in the side stream besides the open model call. */
const maxBatches = 1_000;
/** The maximum number of collected deltas; beyond it the progress of tools is dropped. */
const maxWaiting = 1_000;

/**
 * Collects deltas for 20 ms and sends them as one batch per task, with adjacent text merged. While Redis does not respond, a task has one batch
 * in flight and collects the rest. A failed batch is dropped: the records contain everything in the end.
 */
export class DeltaFeed {
  readonly #deps: DeltaFeedDeps;
  readonly #tasks = new Map<string, Waiting>();
  readonly #timer = new Timer(backgroundClock);
  #batches = 0;

  constructor(deps: DeltaFeedDeps) {
    this.#deps = deps;
  }

  add(taskId: string, delta: Delta): void {
    const waiting = this.#tasks.get(taskId) ?? { deltas: [], underWay: 0 };
    this.#tasks.set(taskId, waiting);
    addMerged(waiting.deltas, delta);
    if (waiting.deltas.length > maxWaiting) waiting.deltas = waiting.deltas.filter(({ type }) => type === 'llm');
    this.#sendSoon();
  }

  isWaiting(taskId: string): boolean {
    const waiting = this.#tasks.get(taskId);
    return waiting !== undefined && waiting.deltas.length > 0;
  }

  /** Sends the collected deltas, so that they precede the next write. */
  flush(taskId: string): void {
    const waiting = this.#tasks.get(taskId);
    if (waiting === undefined || waiting.deltas.length === 0) return;
    const { deltas } = waiting;
    waiting.deltas = [];
    for (const batch of batchesOf(deltas)) this.#send(taskId, waiting, batch);
  }

  close(): void {
    this.#timer.close();
    for (const taskId of this.#tasks.keys()) this.flush(taskId);
  }

  #sendSoon(): void {
    if (!this.#timer.isSet) this.#timer.set(collectMs, () => this.#sendAll());
  }

  #sendAll(): void {
    for (const [taskId, waiting] of this.#tasks) if (waiting.underWay === 0) this.flush(taskId);
  }

  #send(taskId: string, waiting: Waiting, deltas: readonly Delta[]): void {
    const { head, deltas: stream } = taskKeys(this.#deps.prefix, taskId);
    const epoch = deltas[0]?.epoch ?? 0;
    const json = deltasJson(deltas);
    if (json === undefined) return;
    const args = [epoch, ++this.#batches, maxBatches, json];
    waiting.underWay++;
    this.#deps.scripts
      .run({ script: 'publish', keys: [head, stream], args, subject: { taskId } })
      .catch(() => {})
      .finally(() => this.#settle(taskId, waiting));
  }

  #settle(taskId: string, waiting: Waiting): void {
    waiting.underWay--;
    if (waiting.underWay > 0) return;
    if (waiting.deltas.length === 0) this.#tasks.delete(taskId);
    else this.#sendSoon();
  }
}

function addMerged(deltas: Delta[], delta: Delta): void {
  const last = deltas.at(-1);
  const merged = last && mergedDelta(last, delta);
  if (merged === undefined) deltas.push(delta);
  else deltas[deltas.length - 1] = merged;
}

/** A batch has one epoch, which the script compares with the head's. */
function batchesOf(deltas: readonly Delta[]): readonly (readonly Delta[])[] {
  const batches: Delta[][] = [];
  for (const delta of deltas) {
    const last = batches.at(-1);
    if (last?.[0]?.epoch === delta.epoch) last.push(delta);
    else batches.push([delta]);
  }
  return batches;
}

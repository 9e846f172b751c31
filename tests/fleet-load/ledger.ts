import { closeSync, fdatasync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Deed, World } from '../crash/workload/world.ts';

/** What processes note besides what models and tools do. `at`: milliseconds since 1970. */
export type LoadDeed =
  | Deed
  /** The queue has taken a turn. `before`: how many it had taken by then. */
  | { readonly type: 'submitted'; readonly task: string; readonly from: number; readonly at: number }
  /** The queue has taken the answer to a question of the turn. */
  | { readonly type: 'answered'; readonly task: string; readonly at: number }
  /** A worker has the job of a turn, and asks for the lease. */
  | { readonly type: 'took'; readonly task: string; readonly pid: number; readonly at: number }
  /** A worker had the job of a turn, and is done with it. */
  | { readonly type: 'run'; readonly task: string; readonly outcome: string; readonly at: number }
  /** An observer got an event, and the end of its stream. */
  | { readonly type: 'seen'; readonly task: string; readonly cursor: string; readonly kind: string }
  | { readonly type: 'closed'; readonly task: string }
  /** The event loop of a process stood still until `at`. */
  | { readonly type: 'stalled'; readonly pid: number; readonly ms: number; readonly at: number };

/** A file of one process. What was noted stands, whoever dies next. */
export class Ledger implements World {
  readonly #file: number;
  #syncing: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(folder: string, role: string) {
    // Ledgers are read in the order of their names: that of processes of one role, one after the other, is the order of time.
    this.#file = openSync(join(folder, `${role}-${Date.now()}-${process.pid}.jsonl`), 'a');
  }

  note(deed: LoadDeed): void {
    writeSync(this.#file, `${JSON.stringify(deed)}\n`);
  }

  /** Resolves once all that was noted is on the disk. Calls share the writes to it. */
  synced(): Promise<void> {
    if (!this.#syncing) {
      this.#syncing = this.#sync().finally(() => {
        this.#syncing = undefined;
      });
      return this.#syncing;
    }
    this.#next ??= this.#syncing.then(() => {
      this.#next = undefined;
      return this.synced();
    });
    return this.#next;
  }

  deeds(): readonly Deed[] {
    throw new Error('The tools of the load do not look at the ledger.');
  }

  close(): void {
    closeSync(this.#file);
  }

  #sync(): Promise<void> {
    return new Promise((resolve, reject) => {
      fdatasync(this.#file, (error) => (error ? reject(error) : resolve()));
    });
  }
}

/** What all processes of a role noted, or all of all. A line that its process did not come to write whole is left out. */
export function readLedgers(folder: string, role = ''): readonly LoadDeed[] {
  return readdirSync(folder)
    .filter((name) => name.startsWith(role) && name.endsWith('.jsonl'))
    .flatMap((name) => readFileSync(join(folder, name), 'utf8').split('\n').slice(0, -1))
    .map((line) => JSON.parse(line));
}

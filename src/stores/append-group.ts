import type { AppendOptions, Lease } from '../core/contracts/index.ts';
import { isTerminal, type JournalRecord } from '../core/journal/index.ts';

/** So much is gathered at most: a Redis script runs alone on its server. */
const maxRecords = 100;

/** Appends of one lease, made in one go of this process, that are sent as one. */
export class AppendGroup {
  readonly lease: Lease;
  readonly records: JournalRecord[];
  options: AppendOptions;
  /** Settles as the append does. */
  readonly answered: Promise<void>;
  #answer: (answer: Promise<void>) => void = () => {};

  constructor(lease: Lease, records: readonly JournalRecord[], options: AppendOptions) {
    this.lease = lease;
    this.records = [...records];
    this.options = options;
    this.answered = new Promise((resolve) => {
      this.#answer = resolve;
    });
  }

  /** Adds an append if it continues the group's records. */
  take(lease: Lease, records: readonly JournalRecord[], { status, barrier }: AppendOptions): boolean {
    const last = this.records.at(-1);
    const first = records[0];
    if (last === undefined || first?.seq !== last.seq + 1 || isTerminal(last)) return false;
    if (lease.owner !== this.lease.owner || lease.epoch !== this.lease.epoch) return false;
    if (this.records.length + records.length > maxRecords) return false;
    this.records.push(...records);
    this.options = { status, barrier: barrier || this.options.barrier };
    return true;
  }

  answerWith(answer: Promise<void>): void {
    this.#answer(answer);
  }
}

import type { TaskStateStore, TaskSummary } from '../core/contracts/index.ts';
import { foldRecords, isTerminal, type JournalRecord, shownRecords } from '../core/journal/index.ts';

/** How many records are kept together; the journal that was read last is kept in any case. */
const mostRecords = 60_000;

interface KeptJournal {
  readonly createdAt: string;
  readonly records: JournalRecord[];
}

/** The journals that were read last, so that a page that looks at one turn reads each record once. Memory: 60,000 records, or one journal. */
export class Journals {
  readonly #store: TaskStateStore;
  readonly #raw: boolean;
  /** The one that was read last stands last. */
  readonly #kept = new Map<string, KeptJournal>();

  /** `raw`: also answers of the model that were replaced at the end of the turn. */
  constructor(store: TaskStateStore, { raw }: { readonly raw: boolean }) {
    this.#store = store;
    this.#raw = raw;
  }

  /** All records until now, as they are shown, and the summary. Errors: those of `read`. */
  async read(taskId: string): Promise<{ readonly records: readonly JournalRecord[]; readonly summary: TaskSummary }> {
    const summary = await this.#store.describe(taskId);
    const kept = this.#kept.get(taskId);
    // Another turn of that id, where the first one was deleted.
    const isSame = kept?.createdAt === summary?.createdAt && (kept?.records.length ?? 0) <= (summary?.seq ?? 0);
    const known = isSame ? (kept?.records ?? []) : [];
    if (summary === null || !isSame) this.#kept.delete(taskId);
    const records = [...known, ...(await this.#store.read(taskId, { from: known.length + 1 }))];
    // A store may know a task that it cannot describe for a moment; `read` says what is wrong.
    const found = summary ?? (await this.#store.describe(taskId));
    if (found === null) throw new TypeError('a task with records has no summary');
    this.#keep(taskId, { createdAt: found.createdAt, records });
    return { records: this.#raw ? records : withReplacements(records), summary: found };
  }

  #keep(taskId: string, journal: KeptJournal): void {
    this.#kept.delete(taskId);
    this.#kept.set(taskId, journal);
    let sum = [...this.#kept.values()].reduce((total, { records }) => total + records.length, 0);
    for (const [oldest, { records }] of this.#kept) {
      if (sum <= mostRecords || oldest === taskId) return;
      this.#kept.delete(oldest);
      sum -= records.length;
    }
  }
}

/** Answers are replaced or withheld by the end of the turn. */
function withReplacements(records: readonly JournalRecord[]): readonly JournalRecord[] {
  const last = records.at(-1);
  if (!last || !isTerminal(last)) return records;
  const isReplaced = last.type === 'turn.failed' || records.some(isReplacing);
  return isReplaced ? shownRecords(records, foldRecords(records).changes) : records;
}

function isReplacing(record: JournalRecord): boolean {
  return 'hook' in record && (record.hook === 'afterTurn' || record.effects?.withhold === true);
}

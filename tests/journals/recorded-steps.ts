import { InMemoryStateStore, type JournalRecord, type Stamped } from 'millrace';
import type { AppendOptions, Lease, TaskStateStore, TurnStarted, Under } from 'millrace/types';

/** What processes did with a store, in order: all that a store needs to be as they left it. */
export type Step =
  | { readonly do: 'create'; readonly record: Stamped<TurnStarted> }
  | { readonly do: 'acquire'; readonly taskId: string; readonly epoch: number; readonly under?: Under }
  | {
      readonly do: 'append';
      readonly taskId: string;
      readonly epoch: number;
      readonly status: AppendOptions['status'];
      readonly records: readonly JournalRecord[];
    }
  | { readonly do: 'release'; readonly taskId: string; readonly epoch: number };

/** A store that keeps what is done with it. */
export class RecordingStore extends InMemoryStateStore {
  readonly steps: Step[] = [];

  override create(taskId: string, record: Stamped<TurnStarted>) {
    const answer = super.create(taskId, record);
    if (answer.created) this.steps.push({ do: 'create', record });
    return answer;
  }

  override acquire(taskId: string, owner: string, leaseMs: number, under?: Under): Lease {
    const lease = super.acquire(taskId, owner, leaseMs, under);
    this.steps.push({ do: 'acquire', taskId, epoch: lease.epoch, ...(under && { under }) });
    return lease;
  }

  override append(lease: Lease, records: readonly JournalRecord[], options: AppendOptions): void {
    super.append(lease, records, options);
    const { taskId, epoch } = lease;
    this.steps.push({ do: 'append', taskId, epoch, status: options.status, records });
  }

  override release(lease: Lease, abandonedAt?: number): void {
    super.release(lease, abandonedAt);
    this.steps.push({ do: 'release', taskId: lease.taskId, epoch: lease.epoch });
  }
}

/** Puts a store into the state after these steps, as if all processes had died then. Epochs become those of the store. */
export async function restore(store: TaskStateStore, steps: readonly Step[]): Promise<void> {
  const leases = new Map<number, Lease>();
  const leaseOf = (epoch: number): Lease => {
    const lease = leases.get(epoch);
    if (lease === undefined) throw new Error(`no step acquires the epoch ${epoch}`);
    return lease;
  };
  for (const step of steps) {
    if (step.do === 'create') await store.create(step.record.taskId, step.record);
    else if (step.do === 'release') await store.release(leaseOf(step.epoch));
    else if (step.do === 'acquire') {
      const under = step.under && { taskId: step.under.taskId, epoch: leaseOf(step.under.epoch).epoch };
      leases.set(step.epoch, await store.acquire(step.taskId, `owner-${step.epoch}`, 30_000, under));
    } else {
      const lease = leaseOf(step.epoch);
      const records = step.records.map((record) => ({ ...record, epoch: lease.epoch }));
      await store.append(lease, records, { status: step.status, barrier: true });
    }
  }
}

/** The records of each task after these steps. */
export function recordsAfter(steps: readonly Step[]): ReadonlyMap<string, readonly JournalRecord[]> {
  const journals = new Map<string, JournalRecord[]>();
  for (const step of steps) {
    if (step.do === 'create') journals.set(step.record.taskId, [step.record]);
    if (step.do === 'append') journals.get(step.taskId)?.push(...step.records);
  }
  return journals;
}

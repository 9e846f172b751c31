import { AgentLoopError, type Clock, InMemoryStateStore, type JournalRecord } from 'millrace';
import type { AppendOptions, Lease, Under } from 'millrace/types';
import { type BrokenStore, broken } from './broken-store.ts';

/** Knows the last lease of each task, and when it runs out. */
class LeaseKnowing extends InMemoryStateStore {
  protected readonly current = new Map<string, { readonly lease: Lease; takenAt: number; expiresAt: number }>();
  protected readonly clock: Clock;

  constructor(options: { readonly clock: Clock }) {
    super(options);
    this.clock = options.clock;
  }

  override acquire(taskId: string, owner: string, leaseMs: number, under?: Under): Lease {
    const lease = super.acquire(taskId, owner, leaseMs, under);
    const now = this.clock.now();
    this.current.set(taskId, { lease, takenAt: now, expiresAt: now + leaseMs });
    return lease;
  }

  protected lastLease(lease: Lease): Lease {
    return this.current.get(lease.taskId)?.lease ?? lease;
  }
}

class BreaksWithoutFence extends LeaseKnowing {
  override breakLease(taskId: string): boolean {
    const head = this.current.get(taskId);
    if (head) head.expiresAt = 0;
    return head !== undefined;
  }
}

class NoFence extends LeaseKnowing {
  override append(lease: Lease, records: readonly JournalRecord[], options: AppendOptions): void {
    super.append({ ...this.lastLease(lease), seq: lease.seq }, records, options);
  }
}

class NoOwnerInFence extends LeaseKnowing {
  override append(lease: Lease, records: readonly JournalRecord[], options: AppendOptions): void {
    super.append({ ...lease, owner: this.lastLease(lease).owner }, records, options);
  }
}

class RefusesExpired extends LeaseKnowing {
  override append(lease: Lease, records: readonly JournalRecord[], options: AppendOptions): void {
    const head = this.current.get(lease.taskId);
    if (head && this.clock.now() >= head.expiresAt) throw new AgentLoopError('FENCED', 'expired');
    super.append(lease, records, options);
    if (head) head.expiresAt = this.clock.now() + lease.leaseMs;
  }
}

class NeverBusy extends LeaseKnowing {
  override acquire(taskId: string, owner: string, leaseMs: number): Lease {
    const head = this.current.get(taskId);
    if (head) super.release(head.lease);
    return super.acquire(taskId, owner, leaseMs);
  }
}

class StealsFromLonger extends LeaseKnowing {
  override acquire(taskId: string, owner: string, leaseMs: number): Lease {
    const head = this.current.get(taskId);
    if (head && this.clock.now() >= head.takenAt + leaseMs) super.release(head.lease);
    return super.acquire(taskId, owner, leaseMs);
  }
}

class AppendDoesNotRenew extends LeaseKnowing {
  override append(lease: Lease, records: readonly JournalRecord[], options: AppendOptions): void {
    const head = this.current.get(lease.taskId);
    const leaseMs = head ? head.expiresAt - this.clock.now() : lease.leaseMs;
    super.append({ ...lease, leaseMs }, records, options);
  }
}

class SameEpochAgain extends InMemoryStateStore {
  readonly #true = new Map<string, Lease>();

  override acquire(taskId: string, owner: string, leaseMs: number): Lease {
    const lease = super.acquire(taskId, owner, leaseMs);
    this.#true.set(`${taskId} ${owner}`, lease);
    return { ...lease, epoch: 1 };
  }
  override append(lease: Lease, records: readonly JournalRecord[], options: AppendOptions): void {
    super.append(this.#trueLease(lease), records, options);
  }
  override renew(lease: Lease): void {
    super.renew(this.#trueLease(lease));
  }
  override release(lease: Lease): void {
    super.release(this.#trueLease(lease));
  }
  #trueLease(lease: Lease): Lease {
    return this.#true.get(`${lease.taskId} ${lease.owner}`) ?? lease;
  }
}

class NeverExpires extends InMemoryStateStore {
  override acquire(taskId: string, owner: string, leaseMs: number): Lease {
    return { ...super.acquire(taskId, owner, leaseMs * 1e6), leaseMs };
  }
}

class ReleaseDoesNothing extends InMemoryStateStore {
  override release(): void {}
}

class AnybodyReleases extends LeaseKnowing {
  override release(lease: Lease): void {
    super.release(this.lastLease(lease));
  }
}

class ReleaseOfNothingThrows extends InMemoryStateStore {
  override release(lease: Lease): void {
    super.read(lease.taskId);
    super.release(lease);
  }
}

class RenewDoesNothing extends InMemoryStateStore {
  override renew(): void {}
}

class RenewWithoutFence extends LeaseKnowing {
  override renew(lease: Lease): void {
    super.renew(this.lastLease(lease));
  }
}

class ExpiredCannotRenew extends LeaseKnowing {
  override renew(lease: Lease): void {
    const head = this.current.get(lease.taskId);
    if (head && this.clock.now() >= head.expiresAt) throw new AgentLoopError('FENCED', 'expired');
    super.renew(lease);
  }
}

class LeaseStartsAtOne extends InMemoryStateStore {
  override acquire(taskId: string, owner: string, leaseMs: number): Lease {
    return { ...super.acquire(taskId, owner, leaseMs), seq: 1 };
  }
}

class AcquiresWhatIsNotThere extends InMemoryStateStore {
  override acquire(taskId: string, owner: string, leaseMs: number): Lease {
    if (super.load(taskId) === null) return { taskId, owner, epoch: 1, seq: 0, leaseMs };
    return super.acquire(taskId, owner, leaseMs);
  }
}

class IgnoresUnder extends InMemoryStateStore {
  override acquire(taskId: string, owner: string, leaseMs: number): Lease {
    return super.acquire(taskId, owner, leaseMs);
  }
}

/** Presents another epoch of the parent's lease than the caller does. */
abstract class OtherUnder extends LeaseKnowing {
  protected readonly under = new Map<string, Under>();

  protected abstract presented(taskId: string, under: Under): Under | undefined;

  override acquire(taskId: string, owner: string, leaseMs: number, under?: Under): Lease {
    const presented = under && this.presented(taskId, under);
    const lease = super.acquire(taskId, owner, leaseMs, presented);
    if (presented) this.under.set(taskId, presented);
    return lease;
  }
}

class OlderUnderIsNone extends OtherUnder {
  protected presented(taskId: string, under: Under): Under | undefined {
    return under.epoch < (this.under.get(taskId)?.epoch ?? 0) ? undefined : under;
  }
}

class EqualUnderTakes extends OtherUnder {
  protected presented(taskId: string, under: Under): Under {
    const before = this.under.get(taskId);
    return before && Math.floor(before.epoch) === under.epoch ? { ...under, epoch: before.epoch + 0.001 } : under;
  }
}

class AnyParentTakes extends OtherUnder {
  protected presented(_: string, under: Under): Under {
    return { ...under, taskId: 'the only parent' };
  }
}

class ForgetsUnderOnRelease extends OtherUnder {
  readonly #released = new Set<string>();

  protected presented(taskId: string, under: Under): Under {
    if (!this.#released.delete(taskId)) return under;
    const epoch = Math.max(under.epoch, this.under.get(taskId)?.epoch ?? 0);
    return { ...under, epoch };
  }
  override release(lease: Lease): void {
    super.release(lease);
    this.#released.add(lease.taskId);
  }
}

class UnderBeforeTheEnd extends OtherUnder {
  protected presented(taskId: string, under: Under): Under {
    if (under.epoch < (this.under.get(taskId)?.epoch ?? 0)) throw new AgentLoopError('FENCED', 'older');
    return under;
  }
}

class NoRetryTime extends InMemoryStateStore {
  override acquire(...args: Parameters<InMemoryStateStore['acquire']>): Lease {
    try {
      return super.acquire(...args);
    } catch (error) {
      if (!AgentLoopError.isInstance(error) || error.code !== 'BUSY') throw error;
      throw new AgentLoopError('BUSY', error.message, { taskId: args[0], retryable: true });
    }
  }
}

const newerTakes = 'T-02 a newer owner of the parent turn gets the lease at once, and the owner before is FENCED';
const olderIsFenced = 'T-02 an older owner of the parent turn is FENCED, also once the lease expired or was released';

export const brokenLeases: readonly BrokenStore[] = [
  broken(
    'a broken lease still appends',
    'H-16 breaking a lease fences its owner before anybody else takes the task, also once the lease ran out',
    BreaksWithoutFence,
  ),
  broken('the lease of the parent is ignored', newerTakes, IgnoresUnder),
  broken('an older lease of the parent counts as none', olderIsFenced, OlderUnderIsNone),
  broken('release forgets the lease of the parent', olderIsFenced, ForgetsUnderOnRelease),
  broken(
    'the same lease of the parent takes a child turn',
    'T-02 an owner of the parent turn with the same epoch is BUSY until the lease ends',
    EqualUnderTakes,
  ),
  broken(
    'the lease of any parent takes a child turn',
    'T-02 without a lease of the same parent turn the lease of the child turn decides',
    AnyParentTakes,
  ),
  broken(
    'the lease of the parent comes before the end',
    'T-02 NOT_FOUND, SCHEMA and TERMINAL come before what the lease of the parent turn says',
    UnderBeforeTheEnd,
  ),
  broken(
    'BUSY does not say how long',
    'while a lease lasts, another owner is BUSY and told that a retry may help',
    NoRetryTime,
  ),
  broken('no fence', 'an owner that was overtaken is FENCED and writes nothing', NoFence),
  broken(
    'a fence by epoch alone',
    'a lease that was given back, or an epoch under another name, appends nothing',
    NoOwnerInFence,
  ),
  broken('a lease that ran out is fenced', 'a lease that ran out but that nobody took still appends', RefusesExpired),
  broken('a lease is no obstacle', 'of several owners at the same time exactly one gets the lease', NeverBusy),
  broken(
    'the length of the taker counts, not of the holder',
    'an owner with shorter leases does not take over a longer one early',
    StealsFromLonger,
  ),
  broken('an append does not renew', 'an append prolongs the lease too', AppendDoesNotRenew),
  broken(
    'an epoch is used again',
    'a lease that ran out is taken over with a higher epoch and the seq of the journal then',
    SameEpochAgain,
  ),
  broken('a lease never runs out', 'an owner that was overtaken is FENCED and writes nothing', NeverExpires),
  broken('release does nothing', 'a lease given back is free at once, with a higher epoch', ReleaseDoesNothing),
  broken('anybody can release', 'giving back a lease that is no longer held does nothing', AnybodyReleases),
  broken(
    'releasing a lease of no task throws',
    'the owner of a deleted task gets NOT_FOUND at its next append',
    ReleaseOfNothingThrows,
  ),
  broken('renew does nothing', 'renew prolongs a lease by its own length from now', RenewDoesNothing),
  broken('renew is not fenced', 'renewing a lease that was taken over or given back is FENCED', RenewWithoutFence),
  broken(
    'a lease that ran out cannot be renewed',
    'a lease that ran out but that nobody took can be renewed, and holds again',
    ExpiredCannotRenew,
  ),
  broken(
    'a lease does not know the journal’s last seq',
    'a lease that ran out is taken over with a higher epoch and the seq of the journal then',
    LeaseStartsAtOne,
  ),
  broken(
    'a lease of nothing',
    'where there is no task, acquire and renew say NOT_FOUND and release does nothing',
    AcquiresWhatIsNotThere,
  ),
];

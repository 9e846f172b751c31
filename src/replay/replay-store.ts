import type { Lease, Under } from '../core/contracts/index.ts';
import { type JournalRecord, type Stamped, type TurnStarted, taskState } from '../core/journal/index.ts';
import { InMemoryStateStore } from '../stores/memory/in-memory-state-store.ts';
import { fenced } from '../stores/store-rules.ts';
import type { Conductor } from './conductor.ts';
import type { Score } from './score.ts';

/** Journals a replay in memory: what the loop writes is compared with the recording, and the recorded record is kept. */
export class ReplayStore extends InMemoryStateStore {
  readonly #score: Score;
  readonly #conductor: Conductor;
  #lease: Lease | undefined;

  constructor(score: Score, conductor: Conductor) {
    super();
    this.#score = score;
    this.#conductor = conductor;
  }

  /** Puts records there that no run of the loop makes: those that a fork copied, and those of who only visits the turn. */
  put(taskId: string, records: readonly JournalRecord[]): void {
    const [first, ...rest] = records;
    if (first?.type === 'turn.started') super.create(taskId, first);
    const more = first?.type === 'turn.started' ? rest : records;
    if (more.length === 0) return;
    const lease = super.acquire(taskId, 'the recording', 1_000);
    this.#write(lease, more);
    super.release(lease);
  }

  override create(taskId: string, started: Stamped<TurnStarted>) {
    const [first] = this.#kept([started]);
    const answer = super.create(taskId, first?.type === 'turn.started' ? { ...first } : started);
    this.#conductor.taken();
    return answer;
  }

  /** Its epoch is the recorded one, so that what is in doubt is in doubt here too. */
  override acquire(taskId: string, owner: string, leaseMs: number, under?: Under): Lease {
    this.#lease = super.acquire(taskId, owner, leaseMs, under);
    return { ...this.#lease, epoch: this.#score.run.epoch };
  }

  override append(lease: Lease, records: readonly JournalRecord[]): void {
    this.#checkAlive(lease);
    const kept = this.#kept(records);
    if (this.#lease && kept.length > 0) this.#write(this.#lease, kept);
    this.#conductor.taken();
  }

  override renew(lease: Lease): void {
    this.#checkAlive(lease);
  }

  override release(): void {
    if (this.#lease) super.release(this.#lease);
  }

  #kept(records: readonly JournalRecord[]): readonly JournalRecord[] {
    try {
      return records.flatMap((record) => this.#score.take(record));
    } catch (error) {
      this.#conductor.fail(error);
      throw error;
    }
  }

  #write(lease: Lease, records: readonly JournalRecord[]): void {
    const { state } = this.#score;
    super.append(lease, records, { status: state ? taskState(state) : 'working', barrier: true });
  }

  #checkAlive(lease: Lease): void {
    if (this.#conductor.isDead) throw this.#conductor.failure ?? fenced(lease);
  }
}

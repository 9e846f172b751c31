import { AgentLoopError, type AppendOptions, type Lease } from '../../core/contracts/index.ts';
import { isTerminal, type JournalRecord } from '../../core/journal/index.ts';
import { AppendGroup } from '../append-group.ts';
import { batchFault, openCallAfter } from '../check-append.ts';
import { statusTimeIn } from '../context-group.ts';
import { encodeRecord } from './record-codec.ts';
import { overtaken } from './redis-errors.ts';
import type { Confirmation, ScriptCall, ScriptRunner } from './script-runner.ts';
import { headKey } from './task-keys.ts';
import { type Retention, secondsToLive } from './time-to-live.ts';

/** The script leaves the open call as it is. */
const asBefore = -1;

export interface JournalWriterDeps {
  readonly scripts: ScriptRunner;
  readonly prefix: string;
  readonly retention: Retention;
  /** What a barrier waits for besides the server's answer; absent where that is enough. */
  readonly confirmation: Confirmation | undefined;
}

/**
 * Sends appends. Those of one task may be pipelined; they reach the journal in the order they are made. What is appended to a task in one
 * go of this process, its microtasks included, is sent as one append.
 */
export class JournalWriter {
  readonly #deps: JournalWriterDeps;
  /** By task: what is being gathered. */
  readonly #groups = new Map<string, AppendGroup>();
  /** By task: the appends on their way, the oldest first. */
  readonly #underWay = new Map<string, symbol[]>();

  constructor(deps: JournalWriterDeps) {
    this.#deps = deps;
  }

  append(lease: Lease, records: readonly JournalRecord[], options: AppendOptions): Promise<void> {
    const { taskId } = lease;
    const fault = batchFault(taskId, records);
    if (fault !== undefined) return this.#refuse(lease, fault, options);
    const open = this.#groups.get(taskId);
    if (open?.take(lease, records, options)) return open.answered;
    this.flush(taskId);
    const group = new AppendGroup(lease, records, options);
    this.#groups.set(taskId, group);
    process.nextTick(() => this.#sendGroup(group));
    return group.answered;
  }

  /** Sends what is being gathered, so that it stands before what is sent next. */
  flush(taskId: string): void {
    const group = this.#groups.get(taskId);
    if (group !== undefined) this.#sendGroup(group);
  }

  flushAll(): void {
    for (const group of this.#groups.values()) this.#sendGroup(group);
  }

  #sendGroup(group: AppendGroup): void {
    const { lease, records, options } = group;
    if (this.#groups.get(lease.taskId) !== group) return;
    this.#groups.delete(lease.taskId);
    group.answerWith(this.#send(lease, records, options));
  }

  /** A batch that must not be written still learns first that its lease is gone, or that the turn has ended. */
  async #refuse(lease: Lease, fault: AgentLoopError, options: AppendOptions): Promise<never> {
    this.flush(lease.taskId);
    await this.#send(lease, [], options);
    throw fault;
  }

  async #send(lease: Lease, records: readonly JournalRecord[], options: AppendOptions): Promise<void> {
    const { scripts, confirmation } = this.#deps;
    const { taskId } = lease;
    const place = Symbol(taskId);
    const line = this.#enter(taskId, place);
    try {
      await scripts.runInOrder(this.#call(lease, records, options), options.barrier ? confirmation : undefined);
    } catch (error) {
      // In a cluster, an append that was sent later can overtake a redirected one.
      const passed = AgentLoopError.isInstance(error) && error.code === 'REWOUND' && line[0] !== place;
      throw passed ? overtaken(taskId) : error;
    } finally {
      this.#leave(taskId, place);
    }
  }

  #call(lease: Lease, records: readonly JournalRecord[], { status }: AppendOptions): ScriptCall {
    const { taskId, owner, epoch, leaseMs } = lease;
    const first = records[0]?.seq ?? 0;
    const last = records.at(-1);
    const terminal = last !== undefined && isTerminal(last);
    const seconds = secondsToLive(this.#deps.retention, status);
    const open = openCallAfter(records) ?? asBefore;
    const times = `${last?.at ?? 0} ${statusTimeIn(records) ?? 0}`;
    const numbers = `${epoch} ${leaseMs} ${seconds} ${first} ${records.length} ${open} ${+terminal} ${times}`;
    const args: string[] = [owner, status, numbers];
    for (const record of records) args.push(...encodeRecord(record));
    return {
      script: terminal ? 'finish' : 'append',
      keys: [headKey(this.#deps.prefix, taskId)],
      args,
      subject: { taskId, lease, seq: first },
    };
  }

  #enter(taskId: string, place: symbol): readonly symbol[] {
    const line = this.#underWay.get(taskId) ?? [];
    line.push(place);
    this.#underWay.set(taskId, line);
    return line;
  }

  #leave(taskId: string, place: symbol): void {
    const line = this.#underWay.get(taskId);
    if (line === undefined) return;
    line.splice(line.indexOf(place), 1);
    if (line.length === 0) this.#underWay.delete(taskId);
  }
}

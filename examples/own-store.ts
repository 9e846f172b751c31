import { randomInt } from 'node:crypto';
import { appendFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AgentLoop, foldRecords, systemClock, type TaskStateStore, toPersisted } from 'millrace';
import * as kit from 'millrace/stores';
import { scriptedLLM } from 'millrace/testing';
import type {
  AppendOptions,
  Clock,
  Command,
  Delta,
  FollowSignal,
  JournalRecord,
  Lease,
  PostOptions,
  ReadOptions,
  Stamped,
  TaskQuery,
  TaskState,
  TaskSummary,
  TurnStarted,
  Under,
} from 'millrace/types';
import { filter, Observable } from 'rxjs';

/** A line of a task's file. */
type Change =
  | { readonly records: readonly JournalRecord[]; readonly status: TaskState; readonly expiresAt: number }
  | { readonly lease: Lease; readonly expiresAt: number; readonly under?: Under | undefined }
  | { readonly expiresAt: number }
  | { readonly free: true; readonly epoch: number; readonly abandonedAt?: number | undefined }
  | { readonly command: Command };

/** What the lines of a file come to. */
class Task {
  readonly records: JournalRecord[] = [];
  readonly commands = new Map<string, Command>();
  readonly listeners = new kit.Broadcast<Command>();
  readonly attempt = new kit.OpenAttempt();
  readonly followers = new kit.Broadcast<FollowSignal>();
  status: TaskState = 'submitted';
  statusAt = 0;
  epoch = 0;
  expiresAt = 0;
  lease: Lease | undefined;
  under: Under | undefined;
  abandonedAt: number | undefined;

  apply(change: Change): void {
    if ('command' in change) {
      this.commands.set(change.command.id, change.command);
      this.listeners.emit([change.command]);
    } else if ('records' in change) this.#append(change.records, change.status, change.expiresAt);
    else if ('free' in change)
      [this.lease, this.epoch, this.abandonedAt] = [undefined, change.epoch, change.abandonedAt];
    else {
      this.expiresAt = change.expiresAt;
      if (!('lease' in change)) return;
      [this.lease, this.epoch, this.abandonedAt] = [change.lease, change.lease.epoch, undefined];
      this.under = change.under ?? this.under;
      this.attempt.close();
    }
  }

  get started(): Stamped<TurnStarted> {
    const [first] = this.records;
    if (first?.type !== 'turn.started') throw new Error('The file does not begin with a turn.');
    return first;
  }

  get hasEnded(): boolean {
    return ['completed', 'failed', 'canceled', 'rejected'].includes(this.status);
  }

  isHeld(now: number): boolean {
    return this.lease !== undefined && now < this.expiresAt && this.expiresAt - now <= this.lease.leaseMs;
  }

  summary(now: number): TaskSummary {
    return kit.summaryOfRecords(this.records, { state: this.status, statusAt: this.statusAt, held: this.isHeld(now) });
  }

  #append(records: readonly JournalRecord[], status: TaskState, expiresAt: number): void {
    [this.status, this.expiresAt] = [status, expiresAt];
    this.statusAt = kit.statusTimeIn(records) ?? this.statusAt;
    for (const record of records) {
      this.records.push(record);
      this.attempt.apply(record);
    }
    this.followers.emit(records.map((record) => ({ type: 'record', record })));
    if (this.hasEnded) this.followers.complete();
  }
}

/** Journals in files of JSON lines, one a task. For one process, which must be the only one; not synced to the disk. */
export class JsonLinesStore implements TaskStateStore {
  static {
    kit.checkArguments(JsonLinesStore.prototype, kit.stateStoreArguments);
  }

  readonly #folder: string;
  readonly #clock: Clock;
  /** In the order of their creation. */
  readonly #tasks = new Map<string, Task>();

  constructor(folder: string, clock: Clock = systemClock) {
    this.#folder = folder;
    this.#clock = clock;
    mkdirSync(folder, { recursive: true });
    const files = readdirSync(folder).map((name) => readFileSync(join(folder, name), 'utf8'));
    const tasks = files.flatMap((text) => taskIn(text) ?? []);
    for (const task of tasks.sort((a, b) => a.started.at - b.started.at)) this.#tasks.set(task.started.taskId, task);
  }

  create(taskId: string, started: Stamped<TurnStarted>) {
    const known = this.#tasks.get(taskId);
    if (known) return { created: false, started: known.started };
    const task = new Task();
    task.statusAt = started.at;
    this.#tasks.set(taskId, task);
    this.#write(taskId, task, { records: [started], status: 'submitted', expiresAt: 0 });
    return { created: true, started };
  }

  acquire(taskId: string, owner: string, leaseMs: number, under?: Under): Lease {
    const task = this.#readable(taskId);
    const now = this.#clock.now();
    if (task.hasEnded) throw kit.ended(taskId);
    const { lease: before, records } = task;
    // A lease that ends later than its length allows was granted by a clock that was ahead: it lasts its length from now.
    if (before) task.expiresAt = Math.min(task.expiresAt, now + before.leaseMs);
    if (!kit.takesAtOnce(taskId, task.under, under) && task.isHeld(now)) throw kit.busy(taskId, task.expiresAt - now);
    const abandonedAt = before ? task.expiresAt - before.leaseMs : (task.abandonedAt ?? null);
    const lease = { taskId, owner, leaseMs, epoch: nextEpoch(task), seq: records.length, abandonedAt };
    this.#write(taskId, task, { lease, expiresAt: now + leaseMs, under });
    return lease;
  }

  append(lease: Lease, records: readonly JournalRecord[], { status }: AppendOptions): void {
    const task = this.#owned(lease);
    const end = { seq: task.records.length, hasEnded: task.hasEnded };
    if (!kit.checkAppend(end, lease, records)) return;
    this.#write(lease.taskId, task, { records, status, expiresAt: this.#clock.now() + lease.leaseMs });
  }

  renew(lease: Lease): void {
    this.#write(lease.taskId, this.#owned(lease), { expiresAt: this.#clock.now() + lease.leaseMs });
  }

  release(lease: Lease, abandonedAt?: number): void {
    const task = this.#tasks.get(lease.taskId);
    if (task && isOwner(task, lease)) this.#write(lease.taskId, task, { free: true, epoch: task.epoch, abandonedAt });
  }

  breakLease(taskId: string): boolean {
    const task = this.#task(taskId);
    if (!task.lease || task.hasEnded) return false;
    const abandonedAt = task.expiresAt - task.lease.leaseMs;
    this.#write(taskId, task, { free: true, epoch: nextEpoch(task), abandonedAt });
    return true;
  }

  commands(taskId: string): Observable<Command> {
    return new Observable((subscriber) => {
      const { listeners, commands } = this.#task(taskId);
      listeners.join(subscriber, [...commands.values()]);
    });
  }

  post(taskId: string, command: Command, { most = Number.POSITIVE_INFINITY }: PostOptions = {}): Command | undefined {
    const task = this.#task(taskId);
    if (task.hasEnded) throw kit.ended(taskId);
    const first = task.commands.get(command.id);
    if (first || task.commands.size >= most) return first;
    this.#write(taskId, task, { command });
    return command;
  }

  read(taskId: string, { from = 1 }: ReadOptions = {}): readonly JournalRecord[] {
    return this.#readable(taskId).records.slice(Math.max(1, from) - 1);
  }

  follow(taskId: string, { from = 1 }: ReadOptions = {}): Observable<FollowSignal> {
    const signals = new Observable<FollowSignal>((subscriber) => {
      const task = this.#readable(taskId);
      const soFar = task.attempt.soFar();
      const records = this.read(taskId, { from }).map((record) => ({ type: 'record', record }) as const);
      task.followers.join(subscriber, [...records, ...(soFar ? [{ type: 'delta', delta: soFar } as const] : [])]);
      if (task.hasEnded) task.followers.complete();
    });
    return signals.pipe(filter((signal) => signal.type === 'delta' || signal.record.seq >= from));
  }

  publish(taskId: string, delta: Delta): void {
    const task = this.#tasks.get(taskId);
    if (!task || delta.epoch < task.epoch || (delta.type === 'llm' && !task.attempt.accept(delta))) return;
    task.followers.emit([{ type: 'delta', delta }]);
  }

  load(taskId: string) {
    return this.#tasks.has(taskId) ? toPersisted(foldRecords(this.read(taskId))) : null;
  }

  describe(taskId: string): TaskSummary | null {
    return this.#tasks.get(taskId)?.summary(this.#clock.now()) ?? null;
  }

  list(query: TaskQuery = {}): readonly TaskSummary[] {
    const now = this.#clock.now();
    return kit.selectTasks([...this.#tasks.values()].map((task) => task.summary(now)).reverse(), query);
  }

  delete(taskId: string): void {
    const task = this.#tasks.get(taskId);
    if (!task) return;
    this.#tasks.delete(taskId);
    rmSync(this.#file(taskId), { force: true });
    for (const child of kit.childrenIn(task.records)) {
      if (this.#tasks.get(child)?.started.parent?.taskId === taskId) this.delete(child);
    }
    task.followers.error(kit.notFound(taskId));
  }

  check() {
    return { ok: true, warnings: ['A power cut may lose the last records: the files are not synced.'] };
  }

  /** Every change is in the file before anybody sees it. */
  #write(taskId: string, task: Task, change: Change): void {
    // The line break comes first: a line that a dead process left unfinished stays one line.
    appendFileSync(this.#file(taskId), `\n${JSON.stringify(change)}`);
    task.apply(change);
  }

  #file(taskId: string): string {
    return join(this.#folder, `${taskId}.jsonl`);
  }

  #task(taskId: string): Task {
    const task = this.#tasks.get(taskId);
    if (!task) throw kit.notFound(taskId);
    return task;
  }

  #readable(taskId: string): Task {
    const task = this.#task(taskId);
    const { schema } = task.started;
    if (schema > kit.journalSchema) throw kit.newerSchema(taskId, schema);
    return task;
  }

  #owned(lease: Lease): Task {
    const task = this.#task(lease.taskId);
    if (!isOwner(task, lease)) throw kit.fenced(lease);
    return task;
  }
}

function isOwner({ lease }: Task, { owner, epoch }: Lease): boolean {
  return lease?.owner === owner && lease.epoch === epoch;
}

/** By a random step: a task that is deleted and created again does not repeat an epoch. */
function nextEpoch({ epoch }: Task): number {
  return epoch + randomInt(1, 2 ** 31);
}

/** Undefined where the process died before the first line was whole. */
function taskIn(text: string): Task | undefined {
  const task = new Task();
  const lines = text.split('\n').filter((line) => line !== '');
  for (const line of lines) {
    const change = changeIn(line);
    if (change) task.apply(change);
  }
  return task.records.length > 0 ? task : undefined;
}

/** Undefined for a line that is not whole: no append reported that it was written. */
function changeIn(line: string): Change | undefined {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

if (process.argv[1] === import.meta.filename) {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-own-store-'));
  const llmProvider = scriptedLLM([{ text: 'Written down.' }]);
  const turn = new AgentLoop({
    agentId: 'clerk',
    llmProvider,
    taskStateStore: new JsonLinesStore(folder),
  }).startTurn([{ role: 'user', content: 'Write this down.' }]);
  await turn.result();
  await turn.settled;
  const again = new JsonLinesStore(folder);
  console.log('read again:', again.load(turn.taskId)?.finalMessage);
  console.log(
    'records:',
    again
      .read(turn.taskId)
      .map(({ type }) => type)
      .join(', '),
  );
  rmSync(folder, { recursive: true });
}

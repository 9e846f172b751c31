import { randomInt, randomUUID } from 'node:crypto';
import { Observable } from 'rxjs';
import {
  type AppendOptions,
  type Command,
  type Delta,
  type FollowSignal,
  type Lease,
  type MessageStore,
  type PostOptions,
  type ReadOptions,
  type StoreCheck,
  type TaskQuery,
  type TaskState,
  type TaskStateStore,
  type TaskSummary,
  taskIdPattern,
  type Under,
} from '../../core/contracts/index.ts';
import {
  type JournalRecord,
  journalSchema,
  type PersistedLoopState,
  type Stamped,
  type TurnStarted,
} from '../../core/journal/index.ts';
import { checkArguments, stateStoreArguments } from '../check-arguments.ts';
import { followMessages, isAt, withMessages, withReference } from '../messages/referred-messages.ts';
import { assertTaskId, firstSeq, loadedState } from '../store-rules.ts';
import { groupOf, statusTimeIn } from '../task-summary.ts';
import { checkServer } from './check-server.ts';
import { DeltaFeed } from './delta-feed.ts';
import { CommandListener, TaskFollower } from './follow-task.ts';
import { type IndexedTask, TaskIndex } from './indexes.ts';
import { encodeRecord, JournalReader, JournalWriter } from './journal.ts';
import { type ScriptCall, ScriptRunner, type TaskKeys, taskKeys } from './lua-scripts.ts';
import { isCluster, RedisConnection, type RedisTarget } from './redis-connection.ts';
import { RedisMessageStore } from './redis-message-store.ts';
import {
  type RedisStateStoreOptions,
  type RedisStoreSettings,
  redisStoreSettings,
  secondsToLive,
} from './redis-options.ts';
import { StreamReaders } from './stream-readers.ts';
import { TaskList } from './task-list.ts';

export type { RedisStateStoreOptions } from './redis-options.ts';

/** The maximum increment of an epoch: large enough that an epoch lost in a failover is not granted again. */
const maxEpochStep = 2 ** 31;
/** Records that one call of `delete` scans for child turns. */
const deletePageSize = 1_000;

/**
 * Stores journals in Redis 7 or newer: one server, Sentinel's primary, or a cluster.
 *
 * Every change of a task is one script, so it is atomic; leases use the server's clock. Nothing is
 * connected before the first call. Blocking reads (`follow`, `commands`) use separate connections: one for all on a single
 * server, one per reader in a cluster.
 *
 * Errors besides the contract's: `UNAVAILABLE` (Redis down, loading, read-only, or its replicas not confirming under `strict`) and
 * `FULL` (out of memory or disk), both retryable; `UNAVAILABLE`, not retryable, if Redis refuses the user. `INVALID_CONFIG` at construction.
 *
 * Memory in this process: appends in flight, and the last page of each read.
 */
export class RedisStateStore implements TaskStateStore {
  static {
    checkArguments<TaskStateStore>(RedisStateStore.prototype, stateStoreArguments);
  }

  readonly #connection: RedisConnection;
  readonly #settings: RedisStoreSettings;
  readonly #scripts: ScriptRunner;
  readonly #journal: JournalReader;
  readonly #writer: JournalWriter;
  readonly #readers: StreamReaders;
  readonly #deltas: DeltaFeed;
  readonly #index: TaskIndex;
  readonly #tasks: TaskList;
  readonly #redis: RedisTarget;
  #messages: RedisMessageStore | undefined;
  /** By task: index entries that still have to be updated, for tasks whose lease was acquired here. In a cluster all of them, else those of a group. */
  readonly #leased = new Map<string, LeasedTask>();

  constructor(options: RedisStateStoreOptions) {
    const settings = redisStoreSettings(options);
    const { prefix, retention, confirmation } = settings;
    const connection = new RedisConnection('RedisStateStore', options.redis, settings);
    const { client } = connection;
    const scripts = new ScriptRunner(connection, prefix);
    this.#redis = options.redis;
    this.#connection = connection;
    this.#settings = settings;
    this.#scripts = scripts;
    this.#journal = new JournalReader({ client, scripts, prefix });
    this.#writer = new JournalWriter({ scripts, prefix, retention, confirmation });
    this.#readers = new StreamReaders(client);
    this.#deltas = new DeltaFeed({ scripts, prefix });
    this.#index = new TaskIndex(connection, prefix);
    this.#tasks = new TaskList({ connection, index: this.#index, scripts, prefix });
  }

  /**
   * On the same server, under the same prefix; a context is kept for a day after its last write. Closed with this store. For other
   * options pass a `RedisMessageStore` to the agent.
   */
  get messages(): MessageStore {
    this.#messages ??= new RedisMessageStore({ redis: this.#redis, prefix: this.#settings.prefix });
    return this.#messages;
  }

  refersTo(messages: MessageStore): boolean {
    return isAt(messages, [this.#redis, this.#settings.prefix]);
  }

  async create(
    taskId: string,
    started: Stamped<TurnStarted>,
  ): Promise<{ readonly created: boolean; readonly started: Stamped<TurnStarted> }> {
    const { head, journal } = this.#keys(taskId);
    const { contextId, agentId, schema, at, parent } = started;
    const task = indexedTask(taskId, contextId, parent?.taskId ?? '');
    const seconds = secondsToLive(this.#settings.retention, 'submitted');
    const call: ScriptCall = {
      script: 'create',
      keys: [head, journal],
      args: [randomUUID(), seconds, schema, contextId, agentId, at, parent?.taskId ?? '', ...encodeRecord(started)],
      subject: { taskId },
    };
    // Before the task, so that none is ever unlisted; again after it, since a list may have met the entry without its task.
    const tell = () =>
      Promise.all([
        this.#index.add(task, at),
        this.#tasks.runnable.addInCluster(taskId),
        this.#tellsStates && this.#index.enter(task, 'submitted', at),
      ]);
    const [, answer] = await Promise.all([tell(), this.#scripts.run(call)]);
    if (answer.int(1) === 1) {
      await Promise.all([tell(), this.#tasks.sweep()]);
      return { created: true, started };
    }
    const standing: Stamped<TurnStarted> = JSON.parse(answer.text(2));
    const isListed = standing.contextId === contextId && standing.parent?.taskId === parent?.taskId;
    if (!isListed) await this.#index.remove(task);
    return { created: false, started: { ...standing, seq: 1, epoch: 0 } };
  }

  async acquire(taskId: string, owner: string, leaseMs: number, under?: Under): Promise<Lease> {
    const { head, journal } = this.#keys(taskId);
    const args = [owner, leaseMs, randomUUID(), randomInt(1, maxEpochStep), journalSchema];
    const answer = await this.#scripts.run({
      script: 'acquire',
      keys: [head, journal],
      args: [...args, under?.taskId ?? '', under?.epoch ?? 0],
      subject: { taskId, under },
    });
    // Repairs an index that lost its entry.
    const task = indexedTask(taskId, answer.text(3), answer.text(5));
    this.#index.add(task, Number(answer.text(4))).catch(() => {});
    this.#tasks.runnable.addInCluster(taskId).catch(() => {});
    if (this.#tellsStates || groupOf(task.contextId) !== undefined) {
      this.#leased.set(taskId, { task, createdAt: Number(answer.text(4)), state: 'submitted' });
    }
    const left = answer.text(6);
    const abandonedAt = left === '' ? null : Number(left);
    return { taskId, owner, epoch: Number(answer.text(1)), seq: answer.int(2), leaseMs, abandonedAt };
  }

  append(lease: Lease, records: readonly JournalRecord[], options: AppendOptions): Promise<void> {
    this.#sendDeltas(lease.taskId);
    const appended = this.#writer.append(lease, records.map(withReference), options);
    const leased = this.#leased.get(lease.taskId);
    if (leased === undefined) return appended;
    // After the record, which is valid even if the index update fails; a `list` that finds the entry repairs it.
    return appended.then(() => this.#tell(leased, records, options.status).catch(() => {}));
  }

  async #tell(leased: LeasedTask, records: readonly JournalRecord[], state: TaskState): Promise<void> {
    const { task, createdAt, state: before } = leased;
    const statusAt = statusTimeIn(records);
    if (statusAt !== undefined && groupOf(task.contextId) !== undefined)
      await this.#index.setStatusTime(task, statusAt);
    if (!this.#tellsStates || state === before) return;
    leased.state = state;
    await Promise.all([this.#index.enter(task, state, createdAt), this.#index.leave(task, before)]);
  }

  async renew(lease: Lease): Promise<void> {
    const { taskId, owner, epoch, leaseMs } = lease;
    const seconds = secondsToLive(this.#settings.retention, 'working');
    await this.#scripts.run({
      script: 'renew',
      keys: [this.#keys(taskId).head],
      args: [owner, epoch, leaseMs, seconds],
      subject: { taskId, lease },
    });
  }

  async release(lease: Lease, abandonedAt?: number): Promise<void> {
    const { taskId, owner, epoch } = lease;
    this.#sendDeltas(taskId);
    this.#writer.flush(taskId);
    this.#leased.delete(taskId);
    const { head } = this.#keys(taskId);
    await this.#scripts.run({
      script: 'release',
      keys: [head],
      args: [owner, epoch, abandonedAt ?? ''],
      subject: { taskId },
    });
    await this.#tasks.runnable.addInCluster(taskId).catch(() => {});
  }

  async breakLease(taskId: string): Promise<boolean> {
    const { head } = this.#keys(taskId);
    const args = [randomInt(1, maxEpochStep)];
    const answer = await this.#scripts.run({ script: 'break', keys: [head], args, subject: { taskId } });
    await this.#tasks.runnable.addInCluster(taskId).catch(() => {});
    return answer.int(1) === 1;
  }

  /** Errors with `NOT_FOUND` if there is no such task; stays silent once it is deleted, and while Redis is down. */
  commands(taskId: string): Observable<Command> {
    return new Observable((subscriber) => {
      const keys = this.#keys(taskId);
      void new CommandListener({ scripts: this.#scripts, readers: this.#readers, keys, taskId }, subscriber).start();
    });
  }

  async post(taskId: string, command: Command, { most }: PostOptions = {}): Promise<Command | undefined> {
    const { head, commands, commandIds } = this.#keys(taskId);
    const answer = await this.#scripts.run({
      script: 'post',
      keys: [head, commands, commandIds],
      args: [command.id, JSON.stringify(command), most === undefined || most === Number.POSITIVE_INFINITY ? -1 : most],
      subject: { taskId },
    });
    const standing = answer.text(1);
    return standing === '' ? undefined : JSON.parse(standing);
  }

  async read(taskId: string, options: ReadOptions = {}): Promise<readonly JournalRecord[]> {
    assertTaskId(taskId);
    return withMessages(await this.#journal.read(taskId, firstSeq(options)), () => this.messages);
  }

  /**
   * Survives a loss of the connection; after 30 s without Redis it errors with `UNAVAILABLE`. Errors with `REWOUND` if Redis came
   * back without records that were emitted.
   */
  follow(taskId: string, options: ReadOptions = {}): Observable<FollowSignal> {
    const deps = { journal: this.#journal, scripts: this.#scripts, readers: this.#readers };
    const signals$ = new Observable<FollowSignal>((subscriber) => {
      assertTaskId(taskId);
      void new TaskFollower(deps, taskId, firstSeq(options), subscriber).start();
    });
    return followMessages(signals$, () => this.messages);
  }

  /** Collected for 20 ms, adjacent text merged, and sent before the next append. */
  publish(taskId: string, delta: Delta): void {
    this.#deltas.add(taskId, delta);
  }

  async load(taskId: string): Promise<PersistedLoopState | null> {
    return loadedState(this.read(taskId));
  }

  async describe(taskId: string): Promise<TaskSummary | null> {
    assertTaskId(taskId);
    return (await this.#tasks.describe(taskId)) ?? null;
  }

  /**
   * Reads the tasks of the context, the state, or all, the newest first, until enough match: a rare state of a context takes
   * long. Runnable tasks have their own index: one call per page of 100, the longest waiting first.
   */
  async list(query: TaskQuery = {}): Promise<readonly TaskSummary[]> {
    return this.#tasks.list(query);
  }

  /** Deletes child turns first, each separately. If it fails in between, the task still exists, so that it can be deleted again. */
  async delete(taskId: string): Promise<void> {
    return this.#delete(taskId, '', new Set());
  }

  /** Checks version, eviction, persistence, role and replicas of every primary, as far as this user may. */
  check(): Promise<StoreCheck> {
    return checkServer(this.#connection.client, this.#settings);
  }

  /** Sends pending data, ends the readers, closes the connections that this store opened, and refuses further calls. */
  async close(): Promise<void> {
    this.#writer.flushAll();
    this.#deltas.close();
    this.#readers.close();
    await Promise.all([this.#connection.close(), this.#messages?.close()]);
  }

  async #delete(taskId: string, parent: string, begun: Set<string>): Promise<void> {
    if (begun.has(taskId)) return;
    begun.add(taskId);
    const { head, journal, deltas } = this.#keys(taskId);
    for (let looked = '-'; ; ) {
      const args = [looked, parent, deletePageSize];
      const call: ScriptCall = { script: 'delete', keys: [head, journal, deltas], args, subject: { taskId } };
      const answer = await this.#scripts.run(call);
      if (answer.int(1) === 1) return this.#index.remove(indexedTask(taskId, answer.text(2), answer.text(3)));
      looked = answer.text(2);
      for (const child of answer.texts(3)) if (taskIdPattern.test(child)) await this.#delete(child, taskId, begun);
    }
  }

  /** In a cluster no script reaches the indexes of states. */
  get #tellsStates(): boolean {
    return isCluster(this.#connection.client);
  }

  /** After the records that they follow. */
  #sendDeltas(taskId: string): void {
    if (!this.#deltas.isWaiting(taskId)) return;
    this.#writer.flush(taskId);
    this.#deltas.flush(taskId);
  }

  #keys(taskId: string): TaskKeys {
    assertTaskId(taskId);
    return taskKeys(this.#settings.prefix, taskId);
  }
}

interface LeasedTask {
  readonly task: IndexedTask;
  readonly createdAt: number;
  /** The state under which the index lists it. */
  state: TaskState;
}

/** `parent`: empty for none. */
function indexedTask(taskId: string, contextId: string, parent: string): IndexedTask {
  return parent === '' ? { taskId, contextId } : { taskId, contextId, parentTaskId: parent };
}

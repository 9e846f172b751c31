import type { Artifact, Part, Task, TaskPushNotificationConfig } from '@a2a-js/sdk';
import { filter, firstValueFrom, fromEvent, map, NEVER, type Observable, of, takeUntil } from 'rxjs';
import {
  AgentLoopError,
  type ArtifactInfo,
  type ArtifactStore,
  type AuthContext,
  type MaybePromise,
  type StartOptions,
  taskIdPattern,
} from '../core/contracts/index.ts';
import {
  type Commit,
  foldRecords,
  type JournalRecord,
  observeTask,
  ready,
  type Signal,
} from '../core/journal/index.ts';
import { within } from '../core/streams/index.ts';
import { givenByCaller } from '../tasks/agent-loop.ts';
import { observeTaskTree } from '../tasks/observe-tree.ts';
import type { ResolvedHandlerOptions } from './handler-options.ts';
import type { ToKeep } from './kept-bytes.ts';
import type { OwnTask, PushConfigs } from './kept-in-stores.ts';
import { malformed, protocolErrors, taskNotFound, unsupported } from './protocol-errors.ts';
import { dataPart, keptSizeOfJson, textPart } from './received-message.ts';
import type { Scope } from './scope.ts';
import { isAtRest, type SnapshotOptions, shownState, type TurnView, taskOf } from './task-snapshot.ts';
import type { TurnExecution } from './turn-execution.ts';

/** What became of a message. */
export interface Sent {
  readonly taskId: string;
  /** The last record that stood when the message came: a stream shows what follows. Absent for a message that had come before. */
  readonly since?: number;
  /** The task continues after this record, even if it waited for input there. 0 if it did not wait. */
  readonly beyond: number;
  /** The id of the command that delivered the message to a running turn. */
  readonly command?: string;
}

interface AwaitOptions extends SnapshotOptions {
  /** Whether the task is shown as it stands. */
  readonly immediately: boolean;
  /** Aborted once nobody waits for the answer any more. */
  readonly left?: AbortSignal | undefined;
}

/** Of one call. */
interface CallerTasksOptions {
  readonly scope: Scope;
  readonly turns: TurnExecution;
  /** What tools learn of the caller, in turns that the call starts, resumes or takes over. */
  readonly authContext: AuthContext | undefined;
  readonly context: unknown;
}

/** The tasks of one owner: what a call may see and do, nothing else. */
export class CallerTasks {
  readonly scope: Scope;
  readonly turns: TurnExecution;
  readonly auth: Pick<StartOptions, 'authContext' | 'context'>;
  readonly options: ResolvedHandlerOptions;

  constructor(options: ResolvedHandlerOptions, { scope, turns, ...caller }: CallerTasksOptions) {
    this.options = options;
    this.scope = scope;
    this.turns = turns;
    this.auth = givenByCaller(caller);
  }

  /** Errors: TaskNotFound, also for a task of somebody else. */
  async find(taskId: string): Promise<TurnView> {
    assertNamed(taskId);
    const view = taskIdPattern.test(taskId) ? await this.read(taskId) : undefined;
    if (!view) throw taskNotFound();
    return view;
  }

  /** As the stores know it. Errors: as `find`. */
  async own(taskId: string): Promise<OwnTask> {
    const { state } = await this.find(taskId);
    return { taskId, contextId: state.turn.contextId };
  }

  /** Has something written, where the limit of what is kept for the owner has room. Errors: that of the limit. */
  async keep<T>(what: ToKeep, write: () => Promise<T>): Promise<T> {
    const { kept } = this.options;
    return kept ? kept.keep(this.scope, what, write) : write();
  }

  /** Lets something in that is written then; the caller says when. Errors: that of the limit. */
  async admit(what: ToKeep): Promise<() => void> {
    const { kept } = this.options;
    return kept ? kept.admit(this.scope, what) : () => {};
  }

  /** Stores a push notification configuration of the owner for a task. Errors: as `keep`, and those of `PushConfigs.create`. */
  register(
    push: PushConfigs,
    task: OwnTask,
    config: TaskPushNotificationConfig,
    version: string,
  ): Promise<TaskPushNotificationConfig> {
    return this.keep({ bytes: keptSizeOfJson(config) }, () => push.create(task, config, version));
  }

  /** A task of the owner; `undefined` where there is none. */
  async read(taskId: string): Promise<TurnView | undefined> {
    try {
      const records = await this.ready(() => this.options.store.read(taskId));
      const state = foldRecords(records);
      return this.scope.owns(state.turn.contextId) ? { records, state } : undefined;
    } catch (error) {
      if (AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND') return undefined;
      throw error;
    }
  }

  /**
   * What happens in a task until it is over, its records so far first. `tree`: with the events of its open child turns. Where the owner of
   * the task is gone, it is resumed meanwhile.
   */
  signals(taskId: string, tree = false): Observable<Signal> {
    return this.#observed(taskId, tree).pipe(this.turns.followed(taskId, this.auth));
  }

  /** The same of a task that a client names. Errors: TaskNotFound; UnsupportedOperation where it is over already. */
  openSignals(taskId: string, tree = false): Observable<Signal> {
    assertNamed(taskId);
    if (!taskIdPattern.test(taskId)) throw taskNotFound();
    const check = (signal: Signal, index: number) => {
      if (index > 0 || signal.type !== 'commit') return signal;
      if (!this.scope.owns(signal.after.turn.contextId)) throw taskNotFound();
      if (signal.after.isComplete) throw unsupported('The task is over; there is nothing to subscribe to.');
      return signal;
    };
    return this.#observed(taskId, tree).pipe(map(check), this.turns.followed(taskId, this.auth));
  }

  #observed(taskId: string, tree: boolean): Observable<Signal> {
    return (tree ? observeTaskTree : observeTask)(this.options.store, taskId, this.#deadline);
  }

  /**
   * The task once it is over or waits for somebody. Leaving does not stop it, but the wait. Errors: UnsupportedOperation where the turn
   * ended without having been told.
   */
  async awaited({ taskId, beyond, command }: Sent, { immediately, left, ...shown }: AwaitOptions): Promise<Task> {
    const records: JournalRecord[] = [];
    const rests = ({ steps, after }: Commit) => {
      for (const { record } of steps) records.push(record);
      return immediately || after.isComplete || (after.seq > beyond && isAtRest(shownState(after)));
    };
    const commits$ = this.signals(taskId).pipe(filter((signal) => signal.type === 'commit'));
    const { after } = await firstValueFrom(commits$.pipe(filter(rests), takeUntil(leaving(left))));
    if (command !== undefined && after.isComplete && !after.commands.has(command))
      throw unsupported('The task ended before it received the message; send it without taskId.');
    return this.shown({ records, state: after }, shown);
  }

  /** A task as clients are shown it, with what its tools keep. */
  async shown(view: TurnView, options: SnapshotOptions = {}): Promise<Task> {
    const task = taskOf(view, options);
    if (options.artifacts !== false) task.artifacts.push(...(await this.kept(view.state.turn.taskId)));
    return task;
  }

  /** What the tools of a task keep. */
  async kept(taskId: string): Promise<Artifact[]> {
    const { agent, maxInlineArtifactBytes: maxInlineBytes, artifactUrl } = this.options;
    const { artifactStore } = agent.options;
    return artifactStore ? keptArtifacts(artifactStore, taskId, { maxInlineBytes, artifactUrl }) : [];
  }

  /** Errors: TaskNotFound, TaskNotCancelable. */
  async cancel(taskId: string): Promise<Task> {
    const found = await this.find(taskId);
    if (!found.state.isComplete) await this.#cancelled(taskId);
    const view = found.state.isComplete ? found : await this.find(taskId);
    if (!view.state.isComplete || view.state.outcome?.state === 'canceled') return this.shown(view);
    throw new (protocolErrors().TaskNotCancelableError)('The task is over already.');
  }

  /** One answer of the store. Errors: `UNAVAILABLE` where it does not come in time. */
  ready<T>(ask: () => MaybePromise<T>): Promise<T> {
    return ready(ask, this.#deadline);
  }

  get #deadline() {
    return { clock: this.options.clock, ms: this.options.storeDeadlineMs };
  }

  /** Resolves after the deadline, too: the turn has been told then, and stops as soon as its owner can. */
  async #cancelled(taskId: string): Promise<void> {
    const { clock, cancelDeadlineMs } = this.options;
    const limit = { ms: Math.max(1, cancelDeadlineMs), clock, late: () => undefined };
    await within(limit, this.turns.cancel(taskId));
  }
}

/** Errors once the signal is aborted, at once where it is. */
function leaving(signal: AbortSignal | undefined): Observable<never> {
  if (!signal) return NEVER;
  const left$: Observable<unknown> = signal.aborted ? of(true) : fromEvent(signal, 'abort');
  return left$.pipe(
    map(() => {
      throw new (protocolErrors().A2AError)('The client has left.');
    }),
  );
}

/** The codec of 0.3 passes on what the client left out, or gave as null. */
function assertNamed(taskId: unknown): void {
  if (typeof taskId !== 'string' || taskId.trim() === '') throw malformed('The id of a task is required.');
}

interface KeptArtifactOptions {
  /** Contents of more bytes are sent by reference. */
  readonly maxInlineBytes: number;
  /** The URL of a content for clients. `undefined`: only its metadata is sent. */
  readonly artifactUrl: ((artifact: ArtifactInfo) => string | undefined) | undefined;
}

/** How many artifacts of one task are shown. */
const maxArtifacts = 100;

/** What the tools of a task keep, in the newest versions; large contents by reference. */
async function keptArtifacts(store: ArtifactStore, taskId: string, options: KeptArtifactOptions): Promise<Artifact[]> {
  const { artifacts } = await store.list({ taskId, limit: maxArtifacts });
  return Promise.all(
    artifacts.map(async (info) => ({
      artifactId: info.artifactId,
      name: info.name,
      description: '',
      parts: [await partOf(store, info, options)],
      metadata: { version: info.version },
      extensions: [],
    })),
  );
}

async function partOf(store: ArtifactStore, info: ArtifactInfo, options: KeptArtifactOptions): Promise<Part> {
  const { artifactId, version, name: filename, mediaType, size, sha256 } = info;
  const about = { filename, mediaType, metadata: undefined };
  const found = size > options.maxInlineBytes ? null : await store.get(artifactId, { version });
  if (found && mediaType.startsWith('text/')) return { ...textPart(new TextDecoder().decode(found.content)), ...about };
  if (found) return { content: { $case: 'raw', value: Buffer.from(found.content) }, ...about };
  const url = options.artifactUrl?.(info);
  if (url !== undefined) return { content: { $case: 'url', value: url }, ...about };
  return dataPart({ artifactId, version, filename, mediaType, size, sha256 });
}

import {
  AgentLoopError,
  type ArtifactPage,
  type ArtifactQuery,
  type ArtifactStore,
  type Clock,
  type ContextPage,
  isTerminalState,
  type MessagePage,
  type MessageStore,
  shownValue,
  systemClock,
  type TaskQuery,
  type TaskStateStore,
  type TaskSummary,
  taskIdPattern,
} from './core/contracts/index.ts';
import { aClock, anything, assertOptions, milliseconds, type OptionRules } from './options/option-rules.ts';
import type { PushStore } from './stores/push/push-store.ts';
import { groupOf } from './stores/task-summary.ts';
import { cancelTask } from './tasks/task-commands.ts';

/** The stores to erase from: pass all that the agents use. A store that is absent is not touched. */
export interface EraseStores {
  /** The journals of turns. Default: none. */
  readonly taskStateStore?: TaskStateStore | undefined;
  /** The conversations. Default: those of `taskStateStore`, if it has some. */
  readonly messageStore?: MessageStore | undefined;
  /** Default: none. */
  readonly artifactStore?: ArtifactStore | undefined;
  /** The registrations for push notifications of A2A. Default: none. */
  readonly pushStore?: PushStore | undefined;
  /** How long the process that runs a turn may take to stop it. Milliseconds; default 10,000. */
  readonly deadlineMs?: number | undefined;
  /** Replaced in tests. Default: the system clock. */
  readonly clock?: Clock | undefined;
}

/** Options of `erase`: the stores, and either a context or an owner. */
export type EraseOptions = EraseStores &
  (
    | { readonly contextId: string; readonly owner?: undefined }
    /**
     * The part of context ids before the first colon: `alice` is the owner of `alice:notes` and `alice:letters`. For the callers of A2A and of
     * UI handlers: each of `ownersOf` of `millrace/a2a`.
     */
    | { readonly owner: string; readonly contextId?: undefined }
  );

/** What `erase` deleted, by number. */
export interface Erased {
  /** Turns, with their child turns. */
  readonly tasks: number;
  /** Conversations, also without messages. */
  readonly contexts: number;
  readonly messages: number;
  /** Each with all its versions. */
  readonly artifacts: number;
  readonly pushRegistrations: number;
}

/**
 * Deletes everything that the stores keep about a context, or about all contexts of an owner: turns with their child turns in any context, the
 * conversation with its metadata and summary, artifacts of the context or of one of its turns, and the registrations for push notifications of its turns.
 *
 * Safe while turns run: an open turn is cancelled first. One that does not stop within `deadlineMs` loses its journal, and so stops with
 * `NOT_FOUND` at its next append; neither adds messages to the conversation afterwards. A tool that ignores its signal may still write
 * an artifact: repeat the call once the turn has stopped. Turns that start meanwhile are erased too, so refuse the user's messages first.
 *
 * Resolves with the numbers of what this call deleted, once it has found nothing more. Idempotent: after an error or a crash call it again, and
 * it deletes the rest. Errors: `INVALID_CONFIG` and `INVALID_INPUT` before anything is deleted; those of the stores.
 *
 * Not found: turns of agents without a `taskStateStore`, forks in other contexts, and in a `snapshotStateStore` turns that run in other processes and are
 * not named by a conversation. Caches are not keyed by context; their entries expire.
 *
 * Cost: linear in what is erased. For an owner with an `artifactStore` all artifacts of the store are listed once. Memory: a page of 100 entries for
 * each level of child turns.
 */
export async function erase(options: EraseOptions): Promise<Erased> {
  assertOptions('erase', options, rules);
  const { contextId, owner } = options;
  if ((contextId === undefined) === (owner === undefined))
    throw new AgentLoopError('INVALID_INPUT', 'erase needs either contextId or owner; pass exactly one of them.');
  const eraser = new Eraser(options);
  if (contextId !== undefined) {
    if (!isId(contextId)) throw refused('contextId', contextId, '1 to 128 of the characters A-Z a-z 0-9 _ . : -');
    await eraser.eraseContext(contextId);
  } else {
    const isOwner = isId(owner) && groupOf(owner) === undefined;
    if (!isOwner) throw refused('owner', owner, '1 to 128 of the characters A-Z a-z 0-9 _ . -');
    await eraser.eraseOwner(owner);
  }
  return eraser.erased;
}

const rules: OptionRules<EraseStores & { readonly contextId?: string; readonly owner?: string }> = {
  contextId: anything,
  owner: anything,
  taskStateStore: anything,
  messageStore: anything,
  artifactStore: anything,
  pushStore: anything,
  deadlineMs: milliseconds(1),
  clock: aClock,
};

function isId(value: unknown): value is string {
  return typeof value === 'string' && taskIdPattern.test(value);
}

function refused(name: string, value: unknown, wanted: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', `${name} must be ${wanted}, got ${shownValue(value)}.`);
}

const pageSize = 100;

class Eraser {
  readonly #options: EraseStores;
  readonly #messages: MessageStore | undefined;
  readonly #counts = { tasks: 0, contexts: 0, messages: 0, artifacts: 0, pushRegistrations: 0 };

  constructor(options: EraseStores) {
    this.#options = options;
    this.#messages = options.messageStore ?? options.taskStateStore?.messages;
  }

  get erased(): Erased {
    return { ...this.#counts };
  }

  /** A turn may register, or write an artifact, after its store was searched: repeats until nothing is found. */
  async eraseContext(contextId: string): Promise<void> {
    await this.#untilNothing(async () => {
      // Parent turns first: one whose child turn is cancelled would continue.
      await this.#eraseTasks({ contextId, roots: true });
      await this.#eraseTasks({ contextId });
      await this.#eraseConversation(contextId);
      await this.#eraseArtifacts({ contextId });
    });
  }

  async eraseOwner(owner: string): Promise<void> {
    const prefix = `${owner}:`;
    await this.#untilNothing(async () => {
      for await (const page of this.#taskPages({ byStatus: { group: owner } })) {
        for (const contextId of new Set(page.map((task) => task.contextId))) await this.eraseContext(contextId);
      }
      // The one id that does not sort after the prefix.
      await this.eraseContext(prefix);
      for await (const contextId of this.#contextsFrom(prefix)) await this.eraseContext(contextId);
    });
    await this.#eraseArtifacts({}, (contextId) => groupOf(contextId) === owner);
  }

  async #untilNothing(search: () => Promise<void>): Promise<void> {
    const found = () => Object.values(this.#counts).reduce((sum, count) => sum + count, 0);
    for (let before = -1; before < found(); ) {
      before = found();
      await search();
    }
  }

  async #eraseTasks(query: TaskQuery): Promise<void> {
    for await (const page of this.#taskPages(query)) {
      await Promise.all(page.map((task) => this.#stop(task)));
      for (const task of page) await this.#eraseTask(task.taskId);
    }
  }

  /** The first page until it is empty: the caller deletes its tasks. Ends with a page that a store without a consistent list returns again. */
  async *#taskPages(query: TaskQuery): AsyncGenerator<readonly TaskSummary[]> {
    const { taskStateStore: store } = this.#options;
    for (let before = ''; store; ) {
      const page = await store.list({ ...query, limit: pageSize });
      const ids = page.map(({ taskId }) => taskId).join(' ');
      if (ids === before) return;
      yield page;
      before = ids;
    }
  }

  /** Ends an open turn. One that cannot be ended in time, or read, stops when its journal is deleted. */
  async #stop({ taskId, state }: TaskSummary): Promise<void> {
    const { taskStateStore: store, deadlineMs, clock = systemClock } = this.#options;
    if (!store || isTerminalState(state)) return;
    try {
      await cancelTask(taskId, { store, reason: 'erased', deadlineMs, clock });
    } catch (error) {
      if (!AgentLoopError.isInstance(error)) throw error;
    }
  }

  /** Child turns first and the journal last: while it exists, a repeated call finds what belongs to the turn. */
  async #eraseTask(taskId: string): Promise<void> {
    const { taskStateStore: store } = this.#options;
    for await (const page of this.#taskPages({ parentTaskId: taskId })) {
      for (const child of page) await this.#eraseTask(child.taskId);
    }
    await this.#erasePartsOfTask(taskId);
    await store?.delete(taskId);
    this.#counts.tasks++;
  }

  /** What other stores keep about a turn. */
  async #erasePartsOfTask(taskId: string): Promise<void> {
    const { pushStore } = this.#options;
    for (const { configId } of (await pushStore?.list(taskId)) ?? []) {
      await pushStore?.delete({ taskId, configId });
      this.#counts.pushRegistrations++;
    }
    await this.#eraseArtifacts({ taskId });
  }

  async #eraseConversation(contextId: string): Promise<void> {
    const store = this.#messages;
    if (!store) return;
    try {
      const { total, version, agentId, openTurns } = await store.load(contextId, { limit: 0 });
      for (const taskId of openTurns) await this.#eraseNamedTask(taskId);
      if (total > 0) await this.#eraseTurnsOfMessages(store, contextId);
      this.#counts.messages += total;
      if (total > 0 || version > 0 || agentId !== undefined || openTurns.length > 0) this.#counts.contexts++;
    } catch (error) {
      if (!isDamaged(error)) throw error;
    }
    await store.delete(contextId);
  }

  /** Turns that no list has: their journals have expired, or their store lists running turns only. */
  async #eraseTurnsOfMessages(store: MessageStore, contextId: string): Promise<void> {
    for (let after: string | undefined = ''; after !== undefined; ) {
      const query: { limit: number; after?: string } = { limit: pageSize, ...(after !== '' && { after }) };
      const page: MessagePage = await store.list(contextId, query);
      const tasks = new Set(page.messages.flatMap(({ taskId }) => (taskId === undefined ? [] : [taskId])));
      for (const taskId of tasks) await this.#eraseNamedTask(taskId);
      after = page.next;
    }
  }

  async #eraseNamedTask(taskId: string): Promise<void> {
    const task = (await this.#options.taskStateStore?.describe(taskId)) ?? undefined;
    if (task === undefined) return this.#erasePartsOfTask(taskId);
    await this.#stop(task);
    await this.#eraseTask(taskId);
  }

  async *#contextsFrom(prefix: string): AsyncGenerator<string> {
    for (let after: string | undefined = prefix; after !== undefined && this.#messages; ) {
      const { contexts, next }: ContextPage = await this.#messages.contexts({ after, limit: pageSize });
      for (const { contextId } of contexts) {
        if (!contextId.startsWith(prefix)) return;
        yield contextId;
      }
      after = next;
    }
  }

  /** `isErased`: of those of a context that the query does not select. Default: all. */
  async #eraseArtifacts(query: ArtifactQuery, isErased?: (contextId: string) => boolean): Promise<void> {
    const { artifactStore: store } = this.#options;
    for (let after: string | undefined = ''; after !== undefined && store; ) {
      const page: ArtifactPage = await store.list({ ...query, limit: pageSize, ...(after !== '' && { after }) });
      for (const { artifactId, contextId = '' } of page.artifacts) {
        if (isErased && !isErased(contextId)) continue;
        await store.delete(artifactId);
        this.#counts.artifacts++;
      }
      after = page.next;
    }
  }
}

/** The messages of a damaged context, or of one of a newer version, cannot be read, but deleted. */
function isDamaged(error: unknown): boolean {
  return AgentLoopError.isInstance(error) && (error.code === 'POISON' || error.code === 'SCHEMA');
}

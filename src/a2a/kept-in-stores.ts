import type { TaskPushNotificationConfig } from '@a2a-js/sdk';
import {
  AgentLoopError,
  type ArtifactInfo,
  type ArtifactPage,
  type ArtifactQuery,
  type ArtifactStore,
  type ContextPage,
  type ContextQuery,
  type ContextSummary,
  type MaybePromise,
  type MessageStore,
  type TaskStateStore,
  type TaskSummary,
} from '../core/contracts/index.ts';
import { RecentMap } from '../recent-map.ts';
import { groupOf } from '../stores/task-summary.ts';
import { isOfRoute, isScoped } from './scope.ts';

/** A task of the caller. */
export interface OwnTask {
  readonly taskId: string;
  /** As the stores know it, with the owner's digest in front. */
  readonly contextId: string;
}

/**
 * Stores push notification configurations of clients. The handler has checked that the task is the caller's; what an implementation throws
 * reaches the client only where it is an error of the protocol.
 */
export interface PushConfigs {
  /** Rejects for a configuration that cannot be kept, also for want of room at its task, before a message that brings it starts anything. */
  check(config: TaskPushNotificationConfig, task?: OwnTask): Promise<void>;
  /**
   * Keeps a configuration under an id of the server's making, or that of one that is replaced, for notifications in the version that
   * the client speaks. Gives what was kept.
   */
  create(task: OwnTask, config: TaskPushNotificationConfig, version: string): Promise<TaskPushNotificationConfig>;
  /** `undefined` where there is none of that id. */
  get(task: OwnTask, id: string): Promise<TaskPushNotificationConfig | undefined>;
  /** All registrations of a task, the oldest first; none where it has none. */
  list(task: OwnTask): Promise<readonly TaskPushNotificationConfig[]>;
  /** How many bytes are kept for a task, with what `list` does not show. Default: those of what it shows. */
  bytes?(task: OwnTask): Promise<number>;
  /** Does nothing where there is none. */
  delete(task: OwnTask, id: string): Promise<void>;
}

export interface StoresOfKept {
  readonly agentId: string;
  readonly journals: TaskStateStore;
  readonly conversations: MessageStore | undefined;
  readonly artifacts: ArtifactStore | undefined;
  readonly push: PushConfigs | undefined;
  /** One answer of a store. Errors: `UNAVAILABLE` where it does not come in time. */
  readonly ready: <T>(ask: () => MaybePromise<T>) => Promise<T>;
}

/** Whose things are counted. */
export interface Owner {
  /** Of their contexts. */
  readonly group: string;
  /** Of their contexts of other handlers of the server. */
  readonly routeGroup?: string;
  /** Where nobody is asked who they are: all groups of the agent count as one owner's. */
  readonly isAnonymous: boolean;
}

/** Of what a store does not count itself: how far it was measured. */
interface Measured {
  /** The seq of a journal, the messages of a conversation, the version of an artifact. */
  readonly upTo: number;
  readonly bytes: number;
}

const pageSize = 200;
/** Messages of a conversation that are measured at a time. */
const messagesAtOnce = 100;
const maxMeasured = 10_000;

/**
 * How many bytes the stores keep for an owner: journals with their commands, registrations for notifications, conversations, also those whose
 * tasks are gone, and artifacts in all versions that there are. Processes that share the stores compute the same number.
 *
 * Cost: an entry of a list for each task and each context, and what they have in the other stores; in a store that does not count bytes itself
 * also the journal or the conversation, later only what was added to it. Other work of the process runs between two pages. Memory: the ids of the
 * owner's contexts while it counts, and 10,000 measures of each kind.
 */
export class KeptInStores {
  readonly #stores: StoresOfKept;
  readonly #journals = new RecentMap<string, Measured>(maxMeasured);
  readonly #conversations = new RecentMap<string, Measured>(maxMeasured);
  readonly #artifacts = new RecentMap<string, Measured>(maxMeasured);

  constructor(stores: StoresOfKept) {
    this.#stores = stores;
  }

  /** Stops once there are more than `most`. Rejects with what a store says. */
  async count({ group, routeGroup, isAnonymous }: Owner, most: number): Promise<number> {
    let bytes = 0;
    const groups = routeGroup === undefined ? [group] : [group, routeGroup];
    for await (const size of isAnonymous ? this.#ofAll() : this.#ofGroups(groups)) {
      bytes += size;
      if (bytes > most) break;
    }
    return bytes;
  }

  /**
   * How many bytes the next turn of a context copies into its journal at most: the conversation, and what the open turns before it add to that.
   * Cost: of a conversation what was not measured yet, and a look at each open turn. Rejects with what a store says.
   */
  async historyBytes(contextId: string): Promise<number> {
    const { conversations, journals, ready } = this.#stores;
    if (!conversations) return 0;
    const { total, openTurns } = await ready(() => conversations.load(contextId, { limit: 0 }));
    const bytes = total === 0 ? 0 : await this.#conversationBytes({ contextId, total });
    if (openTurns.length === 0) return bytes;
    const open = await Promise.all(openTurns.map((taskId) => ready(() => journals.describe(taskId))));
    const sizes = await Promise.all(open.map((task) => (task === null ? 0 : (task.bytes ?? this.#journalBytes(task)))));
    return sizes.reduce((sum, size) => sum + size, bytes);
  }

  /** Groups are found by their conversations: every turn has one. */
  async *#ofAll(): AsyncGenerator<number> {
    const groups = new Set<string>();
    for await (const { contextId } of this.#contexts('')) {
      if (isScoped(contextId) || isOfRoute(contextId)) groups.add(groupOf(contextId) ?? '');
    }
    for (const group of groups) {
      if (await this.#isOfAgent(group)) yield* this.#ofGroup(group);
    }
  }

  async *#ofGroups(groups: readonly string[]): AsyncGenerator<number> {
    for (const group of groups) yield* this.#ofGroup(group);
  }

  /** Agents that share the stores have groups of their own; conversations whose tasks are gone count for all of them. */
  async #isOfAgent(group: string): Promise<boolean> {
    const { agentId, journals, ready } = this.#stores;
    const [root] = await ready(() => journals.list({ byStatus: { group }, roots: true, limit: 1 }));
    return root === undefined || root.agentId === agentId;
  }

  async *#ofGroup(group: string): AsyncGenerator<number> {
    const contexts = new Set<string>();
    for await (const page of this.#tasks(group)) {
      for (const { contextId } of page) contexts.add(contextId);
      for (const bytes of await Promise.all(page.map((task) => this.#taskBytes(task)))) yield bytes;
    }
    for await (const context of this.#contexts(`${group}:`)) {
      contexts.add(context.contextId);
      yield context.bytes ?? (await this.#conversationBytes(context));
    }
    for (const contextId of contexts) yield* this.#artifactBytes(contextId);
  }

  async *#tasks(group: string): AsyncGenerator<readonly TaskSummary[]> {
    const { journals, ready } = this.#stores;
    for (let after: TaskSummary | undefined; ; ) {
      const query = { byStatus: { group, after }, limit: pageSize };
      const page = await ready(() => journals.list(query));
      yield page;
      after = page.at(-1);
      if (page.length < pageSize) return;
      await nextMacrotask();
    }
  }

  /** Those whose ids begin with `prefix`. */
  async *#contexts(prefix: string): AsyncGenerator<ContextSummary> {
    const { conversations, ready } = this.#stores;
    if (typeof conversations?.contexts !== 'function') return;
    for (let after: string | undefined = prefix; after !== undefined; ) {
      const query: ContextQuery = { limit: pageSize, ...(after !== '' && { after }) };
      const { contexts, next }: ContextPage = await ready(() => conversations.contexts(query));
      for (const context of contexts) {
        if (!context.contextId.startsWith(prefix)) return;
        yield context;
      }
      after = next;
      await nextMacrotask();
    }
  }

  async #taskBytes(task: TaskSummary): Promise<number> {
    const { push, ready } = this.#stores;
    const { taskId, contextId, bytes = await this.#journalBytes(task) } = task;
    if (!push) return bytes;
    const own = { taskId, contextId };
    if (push.bytes) return bytes + (await ready(() => push.bytes?.(own) ?? 0));
    return bytes + bytesOf(await ready(() => push.list(own)));
  }

  async #journalBytes({ taskId, seq }: TaskSummary): Promise<number> {
    const known = this.#journals.get(taskId);
    if (known?.upTo === seq) return known.bytes;
    const { journals, ready } = this.#stores;
    try {
      const before = known && known.upTo < seq ? known : { upTo: 0, bytes: 0 };
      const records = await ready(() => journals.read(taskId, { from: before.upTo + 1 }));
      const bytes = before.bytes + bytesOf(records);
      this.#journals.set(taskId, { upTo: records.at(-1)?.seq ?? before.upTo, bytes });
      return bytes;
    } catch (error) {
      // Deleted meanwhile.
      if (AgentLoopError.isInstance(error) && error.code === 'NOT_FOUND') return 0;
      throw error;
    }
  }

  async #conversationBytes({ contextId, total }: Pick<ContextSummary, 'contextId' | 'total'>): Promise<number> {
    const { conversations, ready } = this.#stores;
    const known = this.#conversations.get(contextId);
    const before = known && known.upTo <= total ? known : { upTo: 0, bytes: 0 };
    let { bytes } = before;
    for (let end = total; conversations && end > before.upTo; ) {
      const page = { before: end, limit: Math.min(messagesAtOnce, end - before.upTo) };
      const { messages } = await ready(() => conversations.load(contextId, page));
      bytes += bytesOf(messages);
      end -= page.limit;
    }
    this.#conversations.set(contextId, { upTo: total, bytes });
    return bytes;
  }

  async *#artifactBytes(contextId: string): AsyncGenerator<number> {
    const { artifacts, ready } = this.#stores;
    if (!artifacts) return;
    for (let after: string | undefined = ''; after !== undefined; ) {
      const query: ArtifactQuery = { contextId, limit: pageSize, ...(after !== '' && { after }) };
      const page: ArtifactPage = await ready(() => artifacts.list(query));
      for (const artifact of page.artifacts) yield await this.#versionBytes(artifacts, artifact);
      after = page.next;
      await nextMacrotask();
    }
  }

  /** Of all versions that there are. */
  async #versionBytes(artifacts: ArtifactStore, { artifactId, version, size }: ArtifactInfo): Promise<number> {
    const known = this.#artifacts.get(artifactId);
    if (known?.upTo === version) return known.bytes;
    let bytes = size;
    for (let older = version - 1; older > 0; older--) {
      const found = await this.#stores.ready(() => artifacts.describe(artifactId, { version: older }));
      if (!found) break;
      bytes += found.size;
    }
    this.#artifacts.set(artifactId, { upTo: version, bytes });
    return bytes;
  }
}

function bytesOf(values: readonly object[]): number {
  return values.reduce((sum, value) => sum + Buffer.byteLength(JSON.stringify(value)), 0);
}

function nextMacrotask(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

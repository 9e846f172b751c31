import {
  AgentLoopError,
  type Clock,
  type ContextMetadata,
  type ContextPage,
  type ContextQuery,
  type ContextSummary,
  type Conversation,
  type LoadOptions,
  type Message,
  type MessagePage,
  type MessageQuery,
  type MessageStore,
  type MetadataOptions,
  systemClock,
  type TurnAppendOptions,
} from '../../core/contracts/index.ts';
import { checkArguments, messageStoreArguments } from '../check-arguments.ts';
import { encodeMetadata } from '../check-metadata.ts';
import { assertKnownOptions, type OptionNames } from '../known-options.ts';
import {
  assertAgentId,
  assertContextId,
  assertLoadOptions,
  assertTurn,
  assertVersion,
  contextQueryOf,
  encodeMessages,
  versionConflict,
} from './check-input.ts';
import { pageOf, summaryOf } from './context-summary.ts';
import { type MessageStamp, messagePageOf, pageRequestOf, pageSpan, spanOf, stampsOf } from './stored-messages.ts';

export interface InMemoryMessageStoreOptions {
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
  /** How many contexts are kept; beyond it, the one written to longest ago that has no open turn is deleted. Default: all. */
  readonly maxContexts?: number | undefined;
}

const optionNames: OptionNames<InMemoryMessageStoreOptions> = { clock: true, maxContexts: true };

interface MemoryContext {
  readonly createdAt: number;
  updatedAt: number;
  readonly messages: Message[];
  /** Of the messages. */
  readonly stamps: MessageStamp[];
  /** Task ids of turns whose messages are here. */
  readonly saved: Set<string>;
  /** Task ids of turns that were begun, in order. */
  readonly open: Set<string>;
  metadata: ContextMetadata;
  version: number;
  /** The agent that answers next. */
  agentId: string | undefined;
}

/**
 * Keeps contexts in the memory of this process: for tests, development, and agents that need not outlive it.
 *
 * Every method answers at once, without a promise, and throws instead of rejecting; messages are shared by reference. Several agents
 * of one process may use one instance.
 *
 * Memory: every context stays until `delete`, or until `maxContexts` others were written to after it.
 */
export class InMemoryMessageStore implements MessageStore {
  static {
    checkArguments(InMemoryMessageStore.prototype, messageStoreArguments);
  }

  readonly #clock: Clock;
  readonly #maxContexts: number;
  /** The one written to longest ago first. */
  readonly #contexts = new Map<string, MemoryContext>();

  /** Errors: `INVALID_CONFIG`, naming the option. */
  constructor(options: InMemoryMessageStoreOptions = {}) {
    assertKnownOptions('InMemoryMessageStore', options, optionNames);
    const { clock = systemClock, maxContexts = Number.POSITIVE_INFINITY } = options;
    if (!(maxContexts >= 1)) {
      const message = `maxContexts is ${maxContexts}; give a number from 1, or leave it out to keep all.`;
      throw new AgentLoopError('INVALID_CONFIG', message);
    }
    this.#clock = clock;
    this.#maxContexts = maxContexts;
  }

  begin(contextId: string, taskId: string): 'open' | 'saved' {
    assertTurn(contextId, taskId);
    if (this.#contexts.get(contextId)?.saved.has(taskId)) return 'saved';
    this.#written(contextId).open.add(taskId);
    return 'open';
  }

  append(
    contextId: string,
    taskId: string,
    messages: readonly Message[],
    { agentId, createdAt }: TurnAppendOptions = {},
  ): { readonly appended: boolean } {
    assertTurn(contextId, taskId);
    assertAgentId(agentId);
    encodeMessages(taskId, messages);
    const stamps = stampsOf(messages, { taskId, createdAt, now: this.#clock.now() });
    if (this.#contexts.get(contextId)?.saved.has(taskId)) return { appended: false };
    const context = this.#written(contextId);
    for (const message of messages) context.messages.push(message);
    for (const stamp of stamps) context.stamps.push(stamp);
    context.saved.add(taskId);
    context.open.delete(taskId);
    if (agentId !== undefined) context.agentId = agentId;
    this.#deleteOldest(contextId);
    return { appended: true };
  }

  setAgent(contextId: string, agentId: string): void {
    assertContextId(contextId);
    assertAgentId(agentId, 'needed');
    this.#written(contextId).agentId = agentId;
    this.#deleteOldest(contextId);
  }

  load(contextId: string, options: LoadOptions = {}): Conversation {
    assertContextId(contextId);
    assertLoadOptions(options);
    const { messages = [], metadata = {}, version = 0, open = [], agentId } = this.#contexts.get(contextId) ?? {};
    const { from, to } = spanOf(messages.length, options);
    const total = messages.length;
    const agent = agentId === undefined ? {} : { agentId };
    const openTurns = [...open];
    return { contextId, messages: messages.slice(from, to), from, total, metadata, version, ...agent, openTurns };
  }

  list(contextId: string, query: MessageQuery = {}): MessagePage {
    assertContextId(contextId);
    const request = pageRequestOf(query);
    const { messages = [], stamps = [], createdAt: since = 0 } = this.#contexts.get(contextId) ?? {};
    const total = messages.length;
    const span = pageSpan(request, total);
    const stamped = (from: number, to: number) =>
      messages.slice(from, to).map((message, index) => ({ message, stamp: stamps[from + index] }));
    const { position } = request;
    const [before] = position < 0 ? [] : stamped(position, position + 1);
    return messagePageOf(request, { contextId, ...span, total, since, messages: stamped(span.from, span.to), before });
  }

  setMetadata(contextId: string, metadata: ContextMetadata, options: MetadataOptions = {}): number {
    assertContextId(contextId);
    encodeMetadata(metadata);
    assertVersion(options);
    const found = this.#contexts.get(contextId)?.version ?? 0;
    const { version = found } = options;
    if (version !== found) throw versionConflict(contextId, version, found);
    const context = this.#written(contextId);
    context.metadata = metadata;
    context.version = found + 1;
    this.#deleteOldest(contextId);
    return context.version;
  }

  /** Sorts all ids. */
  contexts(query: ContextQuery = {}): ContextPage {
    const { limit, after } = contextQueryOf(query);
    const ids = [...this.#contexts.keys()].filter((id) => id > after).sort();
    const summaries = ids.slice(0, limit + 1).flatMap((id) => this.#summary(id) ?? []);
    return pageOf(summaries, limit);
  }

  delete(contextId: string): void {
    assertContextId(contextId);
    this.#contexts.delete(contextId);
  }

  #summary(contextId: string): ContextSummary | undefined {
    const context = this.#contexts.get(contextId);
    if (context === undefined) return undefined;
    const { messages, open, createdAt, updatedAt } = context;
    return summaryOf({ contextId, total: messages.length, open: open.size, createdAt, updatedAt });
  }

  /** The context, made where it is missing, as the one written to last. */
  #written(contextId: string): MemoryContext {
    const now = this.#clock.now();
    const context = this.#contexts.get(contextId) ?? newContext(now);
    context.updatedAt = now;
    this.#contexts.delete(contextId);
    this.#contexts.set(contextId, context);
    return context;
  }

  /** Keeps `written`, the one written to last. */
  #deleteOldest(written: string): void {
    for (const [contextId, { open }] of this.#contexts) {
      if (this.#contexts.size <= this.#maxContexts || contextId === written) return;
      if (open.size === 0) this.#contexts.delete(contextId);
    }
  }
}

function newContext(now: number): MemoryContext {
  return {
    createdAt: now,
    updatedAt: now,
    messages: [],
    stamps: [],
    saved: new Set(),
    open: new Set(),
    metadata: {},
    version: 0,
    agentId: undefined,
  };
}

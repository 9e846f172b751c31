import { randomUUID } from 'node:crypto';
import {
  type AgentLoopError,
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
import { assertOptions } from '../../options/option-rules.ts';
import { checkArguments, encodeMetadata, messageStoreArguments } from '../check-arguments.ts';
import { notePlace } from '../messages/referred-messages.ts';
import {
  assertAgentId,
  assertContextId,
  assertLoadOptions,
  assertTurn,
  assertVersion,
  contextQueryOf,
  damagedContext,
  encodeTurn,
  messagePageOf,
  newerContext,
  pageOf,
  pageRequestOf,
  parsedPart,
  type StampedMessage,
  stampedOf,
  summaryOf,
  totalConflict,
  versionConflict,
} from '../messages/stored-messages.ts';
import { IdIndex } from './indexes.ts';
import { LuaScript, listOf } from './lua-scripts.ts';
import { RedisConnection } from './redis-connection.ts';
import { type RedisSideOptions, secondsOf, sideRules } from './redis-options.ts';

/** Options of `RedisMessageStore`. */
export interface RedisMessageStoreOptions extends RedisSideOptions {
  /**
   * Seconds that a context is kept after its last write; null keeps it. Default 86,400. A context with open turns does not expire:
   * a turn that waits for an answer finds its context.
   */
  readonly ttl?: number | null | undefined;
}

/**
 * Stores contexts in Redis 7 or newer: one server, Sentinel's primary, or a cluster.
 *
 * Every change of a context is one script, so it is atomic, and applied once even if the connection breaks and the
 * client sends it again. Confirmed changes are as durable as the server's own persistence. Nothing is connected before the first call. The list
 * of contexts is an index that is repaired, not atomic with them.
 *
 * Errors besides the contract's: `INVALID_CONFIG` at construction; `UNAVAILABLE` (Redis down, loading or read-only, or after `close`)
 * and `FULL` (out of memory or disk), both retryable.
 *
 * Memory in this process: calls in flight. `load` reads its result in one reply; pass a `limit` if a context may be long.
 */
export class RedisMessageStore implements MessageStore {
  static {
    checkArguments(RedisMessageStore.prototype, messageStoreArguments);
  }

  readonly #connection: RedisConnection;
  readonly #seconds: number;
  readonly #prefix: string;
  readonly #index: IdIndex;

  constructor(options: RedisMessageStoreOptions) {
    assertOptions('RedisMessageStore', options, sideRules);
    const { redis, ttl = 86_400, prefix = 'millrace' } = options;
    this.#connection = new RedisConnection('RedisMessageStore', redis);
    this.#prefix = prefix;
    notePlace(this, [redis, prefix]);
    this.#seconds = secondsOf(ttl);
    this.#index = new IdIndex(this.#connection, `${prefix}:conversations`);
  }

  async begin(contextId: string, taskId: string): Promise<'open' | 'saved'> {
    assertTurn(contextId, taskId);
    const isSaved = await this.#change({ script: 'begin', contextId, args: [this.#seconds, taskId] });
    return isSaved === 1 ? 'saved' : 'open';
  }

  async withdraw(contextId: string, taskId: string): Promise<void> {
    assertTurn(contextId, taskId);
    const isGone = await this.#change({ script: 'withdraw', contextId, args: [this.#seconds, taskId] });
    if (isGone === 1) await this.#summary(contextId);
  }

  async append(
    contextId: string,
    taskId: string,
    messages: readonly Message[],
    options: TurnAppendOptions = {},
  ): Promise<{ readonly appended: boolean }> {
    const texts = encodeTurn({ ...options, contextId, taskId, messages, now: systemClock.now() });
    const { agentId = '', registered = false } = options;
    const args = [this.#seconds, taskId, randomUUID(), agentId, registered ? 1 : 0, ...texts];
    const appended = (await this.#change({ script: 'append', contextId, args })) === 1;
    // The context may be gone, and was listed before the script looked.
    if (registered && !appended) await this.#summary(contextId);
    return { appended };
  }

  async setAgent(contextId: string, agentId: string): Promise<void> {
    assertContextId(contextId);
    assertAgentId(agentId, 'needed');
    await this.#change({ script: 'agent', contextId, args: [this.#seconds, agentId] });
  }

  async load(contextId: string, options: LoadOptions = {}): Promise<Conversation> {
    assertContextId(contextId);
    assertLoadOptions(options);
    const args = [countOf(options.limit), countOf(options.before)];
    const answer = await this.#run({ script: 'load', contextId, args });
    const [, total, from, messages, metadata, version, openTurns, agentId] = answer ?? [];
    return {
      contextId,
      messages: listOf(messages).map((text) => stampedEntry(contextId, text).message),
      from: Number(from),
      total: Number(total),
      metadata: parsedEntry(contextId, metadata),
      version: Number(version),
      ...(agentId ? { agentId: String(agentId) } : {}),
      openTurns: listOf(openTurns).map(String),
    };
  }

  async list(contextId: string, query: MessageQuery = {}): Promise<MessagePage> {
    assertContextId(contextId);
    const request = pageRequestOf(query);
    const args = [request.limit, request.position, request.newestFirst ? 1 : 0];
    const [, total, from, entries, since, before] = (await this.#run({ script: 'list', contextId, args })) ?? [];
    const messages = listOf(entries).map((text) => stampedEntry(contextId, text));
    const read = { contextId, total: Number(total), since: Number(since), messages };
    const span = { from: Number(from), to: Number(from) + messages.length };
    return messagePageOf(request, { ...read, ...span, before: before ? stampedEntry(contextId, before) : undefined });
  }

  async setMetadata(contextId: string, metadata: ContextMetadata, options: MetadataOptions = {}): Promise<number> {
    assertContextId(contextId);
    assertVersion(options);
    const { version, minTotal = 0 } = options;
    const args = [this.#seconds, randomUUID(), countOf(version), minTotal, encodeMetadata(metadata)];
    try {
      return await this.#change({ script: 'metadata', contextId, args, ...options });
    } catch (error) {
      if (minTotal > 0) await this.#summary(contextId);
      throw error;
    }
  }

  async contexts(query: ContextQuery = {}): Promise<ContextPage> {
    const { limit, after } = contextQueryOf(query);
    this.#connection.assertOpen();
    const found: ContextSummary[] = [];
    for (let cursor: string | undefined = after; cursor !== undefined && found.length <= limit; ) {
      const ids = await this.#index.page(cursor, limit + 1);
      found.push(...(await this.#summaries(ids)));
      cursor = ids.at(-1);
    }
    return pageOf(found, limit);
  }

  async delete(contextId: string): Promise<void> {
    assertContextId(contextId);
    await this.#run({ script: 'delete', contextId });
    await this.#index.remove(contextId);
    // Another process may have created it again meanwhile.
    if (await this.#run({ script: 'describe', contextId })) await this.#index.add(contextId);
  }

  /** Closes the connection that this store opened, and refuses further calls. Idempotent. */
  close(): Promise<void> {
    return this.#connection.close();
  }

  /**
   * The second value of the answer. The context is listed before it is changed, so that none is ever unlisted; a new one again
   * after it, since a list may have met the entry without its context.
   */
  async #change(call: ContextCall): Promise<number> {
    this.#connection.assertOpen();
    const [, answer = []] = await Promise.all([this.#index.add(call.contextId), this.#run(call)]);
    if (answer[2] === 1) {
      await this.#index.add(call.contextId);
      await this.#summaries(await this.#index.sample());
    }
    return Number(answer[1]);
  }

  async #summaries(ids: readonly string[]): Promise<readonly ContextSummary[]> {
    const summaries = await Promise.all(ids.map((contextId) => this.#summary(contextId)));
    return summaries.filter((summary) => summary !== undefined);
  }

  /** Removes a missing context from the index. */
  async #summary(contextId: string): Promise<ContextSummary | undefined> {
    const answer = await this.#run({ script: 'describe', contextId });
    if (answer === undefined) {
      await this.#index.remove(contextId);
      return undefined;
    }
    const [, total = 0, open = 0, createdAt = 0, updatedAt = 0, bytes = -1] = answer.map(Number);
    return summaryOf({ contextId, total, open, createdAt, updatedAt, ...(bytes >= 0 && { bytes }) });
  }

  /** The script's values, its code first; `undefined` if there is no such context. */
  async #run(call: ContextCall): Promise<readonly unknown[] | undefined> {
    const { script, contextId, args } = call;
    // Context ids match `taskIdPattern`, so none of them breaks the hash tag.
    const keys = ['mh', 'mm', 'mt', 'mo'].map((name) => `${this.#prefix}:{${contextId}}:${name}`);
    const answer = await scripts[script].run(this.#connection, keys, args);
    if (answer[0] === -1) return undefined;
    const error = errorOf(call, answer.map(Number));
    if (error) throw error;
    return answer;
  }
}

const prelude = 'context-prelude';

const scripts = {
  begin: new LuaScript('context-begin-4', { prelude }),
  withdraw: new LuaScript('context-withdraw-4', { prelude }),
  append: new LuaScript('context-append-4', { prelude }),
  agent: new LuaScript('context-agent-4', { prelude }),
  metadata: new LuaScript('context-metadata-4', { prelude }),
  load: new LuaScript('context-load-4', { prelude, flags: 'no-writes' }),
  list: new LuaScript('context-list-4', { prelude, flags: 'no-writes' }),
  describe: new LuaScript('context-describe-4', { prelude, flags: 'no-writes' }),
  delete: new LuaScript('context-delete-4', { prelude, flags: 'allow-oom' }),
};

interface ContextCall {
  readonly script: keyof typeof scripts;
  readonly contextId: string;
  readonly args?: readonly (string | number)[];
  /** The version that a change of the metadata expects. */
  readonly version?: number | undefined;
  /** How many messages it expects at least. */
  readonly minTotal?: number | undefined;
}

/** For the scripts: below 0 if it is absent. */
function countOf(value = Number.POSITIVE_INFINITY): number {
  return value === Number.POSITIVE_INFINITY ? -1 : value;
}

function parsedEntry<T>(contextId: string, text: unknown): T {
  return parsedPart(contextId, String(text), 'an entry of it is not JSON');
}

function stampedEntry(contextId: string, text: unknown): StampedMessage {
  return stampedOf(parsedEntry(contextId, text));
}

/** The errors of the scripts' codes, as named in `lua/context-prelude.lua`. */
function errorOf(
  { contextId, version = 0, minTotal = 0 }: ContextCall,
  answer: readonly number[],
): AgentLoopError | undefined {
  const [code, first = 0, second = 0] = answer;
  if (code === -8 && second < minTotal) return totalConflict(contextId, minTotal, second);
  if (code === -6) return newerContext(contextId, first);
  if (code === -8) return versionConflict(contextId, version, first);
  if (code !== -7) return undefined;
  const why = `it has ${second} messages where its head says ${first}: Redis lost or evicted keys`;
  return damagedContext(contextId, why);
}

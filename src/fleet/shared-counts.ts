import { isObject, type TaskStateStore } from '../core/contracts/index.ts';
import { command } from '../stores/redis/redis-connection.ts';
import type { QueueConnections } from './connection.ts';

/** The status that a worker publishes. */
export interface WorkerStatus {
  readonly id: string;
  /** The version that the worker reports. */
  readonly version: string;
  /** The ids of its agents. */
  readonly agents: readonly string[];
  /** The number of its running turns. */
  readonly running: number;
  /** Whether it accepts no more turns. */
  readonly draining: boolean;
  /** When it reported this, in milliseconds since 1970. */
  readonly at: number;
}

/** How long a producer may take from its reservation to its job. */
const placeMs = 10_000;
/** A worker without a report for that long is gone. */
const silentMs = 30_000;

/**
 * KEYS: the producers' reservations, then the lists and sorted sets of open jobs, of one agent. ARGV: now, the maximum, the task, the
 * expiry of the reservation. Returns 1 if the reservation was made.
 */
const takePlace = `
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
local count = redis.call('ZCARD', KEYS[1])
for i = 2, #KEYS do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind == 'list' then count = count + redis.call('LLEN', KEYS[i])
  elseif kind == 'zset' then count = count + redis.call('ZCARD', KEYS[i]) end
end
if count >= tonumber(ARGV[2]) and not redis.call('ZSCORE', KEYS[1], ARGV[3]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[4], ARGV[3])
return 1`;

/** A turn of a tenant that a worker runs. */
export interface TenantEntry {
  readonly tenant: string;
  readonly taskId: string;
  /** Of the lease under which the worker runs the turn: a worker that lost the turn changes nothing for the next one. */
  readonly epoch: number;
}

/**
 * KEYS: the running turns of a tenant by the expiry of their entries, and the epoch of each. ARGV: the task, its epoch, now, the maximum, the
 * expiry of its entry. Returns 1 if it may run; the entry then belongs to this epoch. An earlier one may not.
 */
const enter = `
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[3])) do
  redis.call('ZREM', KEYS[1], gone)
  redis.call('HDEL', KEYS[2], gone)
end
if tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or 0) > tonumber(ARGV[2]) then return 0 end
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[4]) and not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[5], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return 1`;

/** KEYS: as of `enter`. ARGV: the task, its epoch, the expiry. No effect on the entry of another epoch. */
const stay = `
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('ZADD', KEYS[1], 'XX', ARGV[3], ARGV[1])`;

/** KEYS: as of `enter`. ARGV: the task, its epoch. No effect on the entry of another epoch. */
const leave = `
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[2], ARGV[1])
return redis.call('ZREM', KEYS[1], ARGV[1])`;

/**
 * Shared counters of a fleet's processes, in the Redis of the queue: reservations below `maxOutstanding`, running turns of tenants, the current
 * sweeper, the workers. All of it may be lost, and is rebuilt. Without Redis it does not exist.
 */
export class SharedCounts {
  readonly #connections: QueueConnections;
  readonly #now: () => number;

  constructor(connections: QueueConnections, now: () => number) {
    this.#connections = connections;
    this.#now = now;
  }

  get isThere(): boolean {
    return this.#connections.redis !== undefined;
  }

  /** Reserves a place for a task among the outstanding ones of its agent, until its job exists. Returns false if there is none. */
  async takePlace(agentId: string, taskId: string, most: number): Promise<boolean> {
    const queue = this.#connections.queueOf(agentId);
    const states = ['wait', 'active', 'prioritized', 'delayed', 'paused'];
    if (!this.isThere) return (await this.#ask(() => queue.getJobCountByTypes())) < most;
    const keys = [this.#places(agentId), ...states.map((state) => queue.toKey(state))];
    const now = this.#now();
    return (await this.#evaluate(takePlace, keys, [now, most, taskId, now + placeMs])) === 1;
  }

  async leavePlace(agentId: string, taskId: string): Promise<void> {
    if (this.isThere) await this.#send('ZREM', this.#places(agentId), taskId);
  }

  /** Whether one more turn of a tenant may run; its entry expires after `forMs` unless it is renewed. A turn with an entry may run. */
  async enter(entry: TenantEntry, { most, forMs }: { readonly most: number; readonly forMs: number }) {
    const now = this.#now();
    return (await this.#ofTenant(enter, entry, [now, most, now + forMs])) === 1;
  }

  /** Renews the entry of a running turn, unless a later run of the turn has it. */
  async stay(entry: TenantEntry, forMs: number): Promise<void> {
    await this.#ofTenant(stay, entry, [this.#now() + forMs]);
  }

  /** Removes the entry, unless a later run of the turn has it. */
  async leave(entry: TenantEntry): Promise<void> {
    await this.#ofTenant(leave, entry, []);
  }

  /** Whether this process sweeps for an agent now; the others do not for `forMs`. */
  async sweeps(agentId: string, forMs: number): Promise<boolean> {
    if (!this.isThere) return true;
    return (
      (await this.#send('SET', this.#connections.key('sweep', agentId), '1', 'NX', 'PX', Math.ceil(forMs))) === 'OK'
    );
  }

  async tell(status: WorkerStatus): Promise<void> {
    if (this.isThere) await this.#send('HSET', this.#workers, status.id, JSON.stringify(status));
  }

  async untell(id: string): Promise<void> {
    if (this.isThere) await this.#send('HDEL', this.#workers, id);
  }

  /** The workers with a recent report. */
  async workers(): Promise<readonly WorkerStatus[]> {
    if (!this.isThere) return [];
    const found = await this.#send('HVALS', this.#workers);
    const all = (Array.isArray(found) ? found : []).flatMap((text) => statusOf(String(text)) ?? []);
    const gone = all.filter(({ at }) => at + silentMs <= this.#now());
    await Promise.all(gone.map(({ id }) => this.untell(id)));
    return all.filter((status) => !gone.includes(status));
  }

  get #workers(): string {
    return this.#connections.key('workers');
  }

  #places(agentId: string): string {
    return this.#connections.key('places', agentId);
  }

  #ofTenant(script: string, { tenant, taskId, epoch }: TenantEntry, values: readonly number[]): Promise<unknown> {
    const keys = [this.#connections.key('running', tenant), this.#connections.key('epochs', tenant)];
    return this.#evaluate(script, keys, [taskId, epoch, ...values]);
  }

  #evaluate(script: string, keys: readonly string[], values: readonly (string | number)[]): Promise<unknown> {
    return this.#send('EVAL', script, keys.length, ...keys, ...values);
  }

  #send(name: string, ...values: readonly (string | number)[]): Promise<unknown> {
    const { redis } = this.#connections;
    return redis ? this.#ask(() => command(redis, name, ...values)) : Promise.resolve(undefined);
  }

  #ask<T>(ask: () => Promise<T>): Promise<T> {
    return this.#connections.ask(ask);
  }
}

/** Undefined for an entry that is no report: it spoils itself only. */
function statusOf(text: string): WorkerStatus | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isStatus(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isStatus(value: unknown): value is WorkerStatus {
  if (!isObject(value)) return false;
  const { id, version, agents, running, draining, at } = value;
  const isText = typeof id === 'string' && typeof version === 'string';
  const areAgents = Array.isArray(agents) && agents.every((each) => typeof each === 'string');
  return isText && areAgents && Number.isFinite(running) && typeof draining === 'boolean' && Number.isFinite(at);
}

interface KnownAgentsDeps {
  readonly store: TaskStateStore;
  readonly connections: QueueConnections;
  readonly counts: SharedCounts;
}

/** The number of open turns to read for agents without a worker. */
const mostOpen = 100;

/** The ids of agents with a queue: those that this process or a worker knows, and those of open turns; and the workers. */
export async function knownAgents({ store, connections, counts }: KnownAgentsDeps): Promise<{
  readonly agentIds: ReadonlySet<string>;
  readonly workers: readonly WorkerStatus[];
}> {
  const workers = await counts.workers();
  const open = await connections.ask(async () => store.list({ runnable: true, roots: true, limit: mostOpen }));
  const known = [...connections.agentIds, ...workers.flatMap(({ agents }) => agents)];
  return { agentIds: new Set([...known, ...open.map(({ agentId }) => agentId)]), workers };
}

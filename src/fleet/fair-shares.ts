import { command } from '../stores/redis/redis-connection.ts';
import type { QueueConnections } from './connection.ts';

/** The largest priority that BullMQ accepts. */
const lastPriority = 2 ** 21 - 1;
/** For an agent without new turns. */
const forgottenAfterMs = 86_400_000;

/**
 * The number of a tenant's next turn: one more than that of its last turn, or than the virtual time, whichever is larger. The virtual time is one less
 * than the number of the first waiting job; it never decreases while a job waits. Tenants whose last number is not above it are deleted: they would get
 * the same number as new ones.
 *
 * KEYS: the last number of each tenant, the virtual time, the agent's waiting jobs with a priority. ARGV: the tenant, the largest priority, the
 * expiry of the keys, the prefix of the hashes of jobs. BullMQ's scores are priority * 2^32 + a counter.
 */
const nextNumber = `
local head = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
if not head then
  redis.call('DEL', KEYS[1], KEYS[2])
end
local time = tonumber(redis.call('GET', KEYS[2]) or '0')
local latest = tonumber(redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2] or '0')
if head then time = math.max(time, math.min(math.floor(tonumber(head) / 0x100000000) - 1, latest)) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', time)
local number = math.max(time, tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or '0')) + 1
if number > tonumber(ARGV[2]) and time > 0 then
  local jobs = redis.call('ZRANGEBYSCORE', KEYS[3], string.format('%.0f', (time + 1) * 0x100000000), '+inf', 'WITHSCORES')
  for i = 1, #jobs, 2 do
    redis.call('ZADD', KEYS[3], string.format('%.0f', tonumber(jobs[i + 1]) - time * 0x100000000), jobs[i])
    if redis.call('HEXISTS', ARGV[4] .. jobs[i], 'priority') == 1 then
      redis.call('HINCRBY', ARGV[4] .. jobs[i], 'priority', -time)
    end
  end
  local tenants = redis.call('ZRANGE', KEYS[1], 0, -1)
  for i = 1, #tenants do redis.call('ZINCRBY', KEYS[1], -time, tenants[i]) end
  number = number - time
  time = 0
end
number = math.min(number, tonumber(ARGV[2]))
redis.call('ZADD', KEYS[1], number, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('SET', KEYS[2], time, 'PX', ARGV[3])
return number`;

/**
 * Assigns priorities to turns of tenants, so that each tenant with waiting turns is served in rotation (start-time fair queueing), whatever it submitted
 * before. State, in the Redis of the queue: a number per tenant with waiting turns. Without Redis there is no fair queueing.
 */
export class FairShares {
  readonly #connections: QueueConnections;

  constructor(connections: QueueConnections) {
    this.#connections = connections;
  }

  /** The priority of a new turn. A turn that is submitted again gets another one. */
  async priorityOf(agentId: string, tenant: string): Promise<number> {
    const { redis } = this.#connections;
    if (!redis) return 1;
    const queue = this.#connections.queueOf(agentId);
    const keys = [
      this.#connections.key('shares', agentId),
      this.#connections.key('time', agentId),
      queue.toKey('prioritized'),
    ];
    const values = [tenant, lastPriority, forgottenAfterMs, queue.toKey('')];
    return Number(
      await this.#connections.ask(() => command(redis, 'EVAL', nextNumber, keys.length, ...keys, ...values)),
    );
  }
}

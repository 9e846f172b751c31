import type { TaskState } from '../../core/contracts/index.ts';
import {
  anObject,
  anything,
  assertKnownOptions,
  assertOptions,
  checkOption,
  type OptionRule,
  type OptionRules,
  oneOf,
  wholeNumber,
  wrongOption,
} from '../../options/option-rules.ts';
import { aTimeToLive } from '../check-arguments.ts';
import type { Confirmation } from './lua-scripts.ts';
import { assertRedisTarget, defaultSilenceMs, type RedisTarget } from './redis-connection.ts';

/** Options of `RedisStateStore`. */
export interface RedisStateStoreOptions {
  /**
   * A URL (`redis://…`, `rediss://…`), options of ioredis (with `sentinels` and `name` for Sentinel), or a client: a `Redis` or a
   * `Cluster`. The caller owns a passed client: `close` does not close it.
   */
  readonly redis: RedisTarget;
  /** Seconds that a task is kept after its turn has ended; null keeps it. Default 86,400. Unfinished work does not expire. */
  readonly ttl?: number | null | undefined;
  /** The same, under an older name; takes precedence if both are set. */
  readonly ttlAfterEndSeconds?: number | null | undefined;
  /**
   * By state of the task: seconds that it is kept after its last record or renewal, instead of the default; null keeps it. Only with
   * this option does a task expire whose turn has not ended: `{ 'input-required': 604_800 }` drops a question without an answer for a week.
   */
  readonly retention?: Partial<Retention> | undefined;
  /** The prefix of all keys. Default `millrace`. */
  readonly prefix?: string | undefined;
  /**
   * What a barrier waits for: `server`, Redis' response (default); `strict`, also `replicas` replicas, so that no failover loses
   * confirmed records. With 0 replicas it relies on `appendfsync always`, which `check` verifies.
   */
  readonly durability?: 'server' | 'strict' | undefined;
  /** How many replicas must confirm under `strict`. Default 1. */
  readonly replicas?: number | undefined;
  /** How long to wait for them before the append fails as `UNAVAILABLE`. Milliseconds; default 1,000. */
  readonly replicaTimeoutMs?: number | undefined;
}

/** Of all keys of a store. */
const aPrefix: OptionRule = {
  fits: (value) => typeof value === 'string' && /^[A-Za-z0-9_.:-]{1,64}$/.test(value),
  must: 'be 1 to 64 of the characters A-Z a-z 0-9 _ . : -',
};

const rules: OptionRules<RedisStateStoreOptions> = {
  redis: anything,
  ttl: aTimeToLive,
  ttlAfterEndSeconds: aTimeToLive,
  retention: anObject,
  prefix: aPrefix,
  durability: oneOf('server', 'strict'),
  replicas: wholeNumber(0),
  replicaTimeoutMs: wholeNumber(1),
};

/** The validated options, with defaults. */
export interface RedisStoreSettings {
  readonly prefix: string;
  readonly retention: Retention;
  readonly strict: boolean;
  /** The number of replicas that `strict` requires; 0 without it. */
  readonly replicas: number;
  readonly confirmation: Confirmation | undefined;
  /** As in `OpenOptions`. */
  readonly silenceMs: number;
}

const owner = 'RedisStateStore';

/** Errors: `INVALID_CONFIG`, in a sentence that names the option. */
export function redisStoreSettings(options: RedisStateStoreOptions): RedisStoreSettings {
  assertOptions(owner, options, rules);
  assertRedisTarget(options.redis);
  const { prefix = 'millrace', ttl = 86_400, durability = 'server', replicaTimeoutMs = 1_000 } = options;
  const { ttlAfterEndSeconds = ttl, retention: given = {} } = options;
  const retention = retentionOf(ttlAfterEndSeconds);
  assertKnownOptions(`retention of ${owner}`, given, retention);
  for (const [state, seconds] of Object.entries(given)) checkOption(`retention of ${state}`, seconds, aTimeToLive);
  const strict = durability === 'strict';
  if (!strict && options.replicas !== undefined) throw wrongOption(owner, 'replicas needs durability "strict"');
  const replicas = strict ? (options.replicas ?? 1) : 0;
  const confirmation = replicas > 0 ? { replicas, timeoutMs: replicaTimeoutMs } : undefined;
  // `WAIT` sends nothing while it waits.
  const silenceMs = defaultSilenceMs + (confirmation?.timeoutMs ?? 0);
  return { prefix, retention: { ...retention, ...given }, strict, replicas, confirmation, silenceMs };
}

/** What the stores beside the journals have in common. */
export interface RedisSideOptions {
  /** A URL, options of ioredis, or a client, which the caller owns: as in `RedisStateStoreOptions`. */
  readonly redis: RedisTarget;
  /** The prefix of all keys. Default `millrace`. May be that of other Redis stores. */
  readonly prefix?: string | undefined;
}

/** The rules of those options, and of the `ttl` that each of these stores has. `redis` is checked where a store connects. */
export const sideRules = { redis: anything, prefix: aPrefix, ttl: aTimeToLive };

/** As the scripts take it: below 0 for what is kept. */
export function secondsOf(ttl: number | null): number {
  return ttl ?? -1;
}

/** By state: seconds that a task is kept after its last record or renewal; null keeps it. */
export type Retention = Readonly<Record<TaskState, number | null>>;

/** Unfinished work does not expire; an ended task is kept for `afterEnd`. */
export function retentionOf(afterEnd: number | null): Retention {
  return {
    submitted: null,
    working: null,
    'input-required': null,
    'auth-required': null,
    completed: afterEnd,
    failed: afterEnd,
    canceled: afterEnd,
    rejected: afterEnd,
  };
}

/** For the scripts: below 0 means no expiry. */
export function secondsToLive(retention: Retention, status: TaskState): number {
  return retention[status] ?? -1;
}

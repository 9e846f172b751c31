import { AgentLoopError, type TaskState } from '../../core/contracts/index.ts';
import { assertKnownOptions, type OptionNames } from '../check-arguments.ts';
import type { Confirmation } from './lua-scripts.ts';
import { assertRedisTarget, defaultSilenceMs, type RedisTarget } from './redis-connection.ts';

/** Options of `RedisStateStore`. */
export interface RedisStateStoreOptions {
  /**
   * A URL (`redis://…`, `rediss://…`), options of ioredis (with `sentinels` and `name` for Sentinel), or a client: a `Redis` or a
   * `Cluster`. A client given stays the caller's: `close` does not end it.
   */
  readonly redis: RedisTarget;
  /** Seconds that a task is kept after its turn has ended; null keeps it. Default 86,400. Unfinished work does not expire. */
  readonly ttl?: number | null | undefined;
  /** The same, under an older name; it counts where both are given. */
  readonly ttlAfterEndSeconds?: number | null | undefined;
  /**
   * By state of the task: seconds that it is kept after its last record or renewal, in place of the default; null keeps it. Only with
   * this option a task expires whose turn has not ended: `{ 'input-required': 604_800 }` drops a question that nobody answers for a week.
   */
  readonly retention?: Partial<Retention> | undefined;
  /** What all keys begin with. Default `millrace`. */
  readonly prefix?: string | undefined;
  /**
   * What a barrier waits for: `server`, Redis's answer (default); `strict`, also `replicas` replicas, so that no failover loses what
   * was confirmed. With 0 replicas it relies on `appendfsync always`, which `check` looks for.
   */
  readonly durability?: 'server' | 'strict' | undefined;
  /** How many replicas have to confirm under `strict`. Default 1. */
  readonly replicas?: number | undefined;
  /** How long to wait for them before the append fails as `UNAVAILABLE`. Milliseconds; default 1,000. */
  readonly replicaTimeoutMs?: number | undefined;
}

const optionNames: OptionNames<RedisStateStoreOptions> = {
  redis: true,
  ttl: true,
  ttlAfterEndSeconds: true,
  retention: true,
  prefix: true,
  durability: true,
  replicas: true,
  replicaTimeoutMs: true,
};

/** The options with their defaults, checked. */
export interface RedisStoreSettings {
  readonly prefix: string;
  readonly retention: Retention;
  readonly strict: boolean;
  /** How many replicas `strict` asks for; 0 without it. */
  readonly replicas: number;
  readonly confirmation: Confirmation | undefined;
  /** As in `OpenOptions`. */
  readonly silenceMs: number;
}

/** Errors: `INVALID_CONFIG`, in a sentence that names the option. */
export function redisStoreSettings(options: RedisStateStoreOptions): RedisStoreSettings {
  assertKnownOptions('RedisStateStore', options, optionNames);
  assertRedisTarget(options.redis);
  const { prefix = 'millrace', ttl = 86_400, durability = 'server', replicaTimeoutMs = 1_000 } = options;
  const { ttlAfterEndSeconds = ttl, retention: given = {} } = options;
  assertPrefix(prefix);
  assertTimeToLive('ttl', ttl);
  assertTimeToLive('ttlAfterEndSeconds', ttlAfterEndSeconds);
  const retention = retentionOf(ttlAfterEndSeconds);
  assertRetention(given, retention);
  if (durability !== 'server' && durability !== 'strict') {
    throw invalid(`durability is ${JSON.stringify(durability)}; known are "server" and "strict".`);
  }
  const strict = durability === 'strict';
  if (!strict && options.replicas !== undefined) throw invalid('replicas needs durability "strict".');
  const replicas = strict ? (options.replicas ?? 1) : 0;
  if (!Number.isInteger(replicas) || replicas < 0)
    throw invalid(`replicas is ${replicas}; give a whole number from 0.`);
  if (!Number.isInteger(replicaTimeoutMs) || replicaTimeoutMs < 1) {
    throw invalid(`replicaTimeoutMs is ${replicaTimeoutMs}; give a whole number of milliseconds from 1.`);
  }
  const confirmation = replicas > 0 ? { replicas, timeoutMs: replicaTimeoutMs } : undefined;
  // `WAIT` is silent for as long as it waits.
  const silenceMs = defaultSilenceMs + (confirmation?.timeoutMs ?? 0);
  return { prefix, retention: { ...retention, ...given }, strict, replicas, confirmation, silenceMs };
}

function assertRetention(given: Partial<Retention>, known: Retention): void {
  for (const [state, seconds] of Object.entries(given)) {
    if (!Object.hasOwn(known, state)) {
      throw invalid(`retention has no state "${state}"; the states are ${Object.keys(known).join(', ')}.`);
    }
    assertTimeToLive(`retention of ${state}`, seconds);
  }
}

/** What the stores beside the journals have in common. */
export interface RedisSideOptions {
  /** A URL, options of ioredis, or a client, which stays the caller's: as in `RedisStateStoreOptions`. */
  readonly redis: RedisTarget;
  /** What all keys begin with. Default `millrace`. May be that of other Redis stores. */
  readonly prefix?: string | undefined;
}

/** `ttl` in seconds; null for good. Errors: `INVALID_CONFIG`. */
export function sideSettings({ prefix = 'millrace' }: RedisSideOptions, ttl: number | null) {
  assertTimeToLive('ttl', ttl);
  assertPrefix(prefix);
  return { prefix, seconds: ttl ?? -1 };
}

function invalid(sentence: string): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', sentence);
}

/** By state: seconds that a task is kept after its last record or renewal; null keeps it. */
export type Retention = Readonly<Record<TaskState, number | null>>;

/** Unfinished work does not expire; a task that has ended is kept for so long. */
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

/** As the scripts take it: below 0 means that the task does not expire. */
export function secondsToLive(retention: Retention, status: TaskState): number {
  return retention[status] ?? -1;
}

/** Errors: `INVALID_CONFIG`. */
function assertPrefix(prefix: string): void {
  if (/^[A-Za-z0-9_.:-]{1,64}$/.test(prefix)) return;
  throw invalid(`prefix is ${JSON.stringify(prefix)}; take 1 to 64 of the characters A-Z a-z 0-9 _ . : -`);
}

/** Errors: `INVALID_CONFIG`. */
function assertTimeToLive(name: string, value: number | null): void {
  if (value === null || (Number.isInteger(value) && value >= 1)) return;
  throw invalid(`${name} is ${value}; give a whole number of seconds from 1, or null to keep what is stored.`);
}

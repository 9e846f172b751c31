import { AgentLoopError } from '../../core/errors.ts';
import { assertKnownOptions, type OptionNames } from '../known-options.ts';
import { assertPrefix, assertRedisTarget, assertTimeToLive } from './check-options.ts';
import { defaultSilenceMs, type RedisTarget } from './redis-client.ts';
import type { Confirmation } from './script-runner.ts';
import type { TimeToLive } from './time-to-live.ts';

export interface RedisStateStoreOptions {
  /**
   * A URL (`redis://…`, `rediss://…`), options of ioredis (with `sentinels` and `name` for Sentinel), or a client: a `Redis` or a
   * `Cluster`. A client given stays the caller's: `close` does not end it.
   */
  readonly redis: RedisTarget;
  /** Seconds that a task is kept after its last sign of life; null keeps it. Default 86,400. A suspended turn does not expire. */
  readonly ttl?: number | null;
  /** The same from the end of the turn on. Default: `ttl`. */
  readonly ttlAfterEndSeconds?: number | null;
  /** What all keys begin with. Default `millrace`. */
  readonly prefix?: string;
  /**
   * What a barrier waits for: `server`, Redis's answer (default); `strict`, also `replicas` replicas, so that no failover loses what
   * was confirmed. With 0 replicas it relies on `appendfsync always`, which `check` looks for.
   */
  readonly durability?: 'server' | 'strict';
  /** How many replicas have to confirm under `strict`. Default 1. */
  readonly replicas?: number;
  /** How long to wait for them before the append fails as `UNAVAILABLE`. Milliseconds; default 1,000. */
  readonly replicaTimeoutMs?: number;
}

const optionNames: OptionNames<RedisStateStoreOptions> = {
  redis: true,
  ttl: true,
  ttlAfterEndSeconds: true,
  prefix: true,
  durability: true,
  replicas: true,
  replicaTimeoutMs: true,
};

/** The options with their defaults, checked. */
export interface RedisStoreSettings {
  readonly prefix: string;
  readonly timeToLive: TimeToLive;
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
  const { ttlAfterEndSeconds = ttl } = options;
  assertPrefix(prefix);
  assertTimeToLive('ttl', ttl);
  assertTimeToLive('ttlAfterEndSeconds', ttlAfterEndSeconds);
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
  const timeToLive = { whileOpen: ttl, afterEnd: ttlAfterEndSeconds };
  return { prefix, timeToLive, strict, replicas, confirmation, silenceMs };
}

function invalid(sentence: string): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', sentence);
}

import type { Agent } from '../agent/agent.ts';
import {
  type Clock,
  type ErrorCode,
  errorCodes,
  invalidConfig,
  type Message,
  shownValue,
} from '../core/contracts/index.ts';
import {
  aName,
  assertKnownOptions,
  checkOptions,
  integerFrom,
  type OptionNames,
  type OptionRule,
} from '../options/option-rules.ts';
import type { PriceList } from '../providers/models/model-info.ts';
import type { BatchRunner, SharedTurnOptions } from './batch-runner.ts';

/** What every item of a batch may have, whether it is a prompt or messages. */
export interface ItemBasics {
  /** Names the item in its row, and its task in the store: of at most 512 characters. Default: its position, from 1, or its line. */
  readonly key?: string | undefined;
  /** Goes with its turn to tools, hooks and models, over that of the agent, and into its row. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  /** The line of the file that it was read from: the default key, and the place in messages. */
  readonly line?: number | undefined;
}

/** One turn of a batch. */
export type BatchItem = ItemBasics &
  (
    | { readonly prompt: string; readonly messages?: undefined }
    | { readonly messages: readonly Message[]; readonly prompt?: undefined }
  );

/** When and how often an item that failed runs again. */
export interface BatchRetry {
  /** How often an item runs at most, from 1. Default 3. */
  readonly attempts?: number | undefined;
  /** The longest pause before the second attempt; it doubles with each. Half of it is waited at least. Milliseconds; default 1,000. */
  readonly delayMs?: number | undefined;
  /** The longest pause of all, also where a server asks for a longer one. Milliseconds; default 60,000. */
  readonly maxDelayMs?: number | undefined;
  /** The codes of failures that may pass. Default: those of a model that is away, or whose answer could not be used. */
  readonly on?: readonly ErrorCode[] | undefined;
}

/** What a batch may take, the rows of its earlier starts included. */
export interface BatchBudget {
  /** In US dollars. */
  readonly cost?: number | undefined;
  /** Prompts and completions together. */
  readonly tokens?: number | undefined;
}

/** Options of `runBatch`: what runs the items, where rows go, how many at once, budget, retries. */
export interface BatchOptions<T = unknown, C = unknown> {
  /** What runs the items: an agent in this process, or a runner such as one of a fleet. */
  readonly agent: Agent<T, C> | BatchRunner<T>;
  /**
   * Names the batch: the same one continues it, where the store of the agent has it. Default: the path of `out`; without `out` a new one, which
   * cannot be continued.
   */
  readonly id?: string | undefined;
  /** The file of the rows, JSON Lines; one that exists is continued. Default: none, rows are only emitted. */
  readonly out?: string | undefined;
  /** Turns that run at once. From 1; default 10, for a fleet `window`. */
  readonly concurrency?: number | undefined;
  /** Items that are read from the source and have not ended. From 1, at least `concurrency`; default 1,000. */
  readonly window?: number | undefined;
  /** Default: no limit. */
  readonly budget?: BatchBudget | undefined;
  /**
   * Stops taking items once so many failed for good in this start, their `retry` included: a script that is wrong fails them all. Turns that run come to their end;
   * started again, the batch continues. From 1; default: no limit.
   */
  readonly maxFailures?: number | undefined;
  /** What models cost, where they do not tell themselves, such as a `ModelRegistry`. */
  readonly prices?: PriceList | undefined;
  /** Runs items that failed again; with a store from the last good record on. Default: each item runs once. */
  readonly retry?: BatchRetry | undefined;
  /** Runs the items again that failed in an earlier start, instead of keeping their rows. Default false. */
  readonly retryFailed?: boolean | undefined;
  /** How many items there are, for `etaMs`. Default: known once the source has ended. */
  readonly total?: number | undefined;
  /** Given to each turn of an agent in this process. */
  readonly turn?: SharedTurnOptions<C> | undefined;
  /** Aborting it stops the batch cleanly: turns are left so that the next start continues them. */
  readonly signal?: AbortSignal | undefined;
  /** Replaced by tests. Default: the system's. */
  readonly clock?: Clock | undefined;
}

const optionNames: OptionNames<BatchOptions> = {
  agent: true,
  id: true,
  out: true,
  concurrency: true,
  window: true,
  budget: true,
  maxFailures: true,
  prices: true,
  retry: true,
  retryFailed: true,
  total: true,
  turn: true,
  signal: true,
  clock: true,
};

/** A model that is away, or whose answer could not be used: another attempt may do better. */
const passing: readonly ErrorCode[] = [
  'PROVIDER_UNREACHABLE',
  'PROVIDER_RATE_LIMIT',
  'PROVIDER_SERVER',
  'PROVIDER_PROTOCOL',
  'PROVIDER_STREAM_CLOSED',
  'PROVIDER_TIMEOUT',
  'PROVIDER_FAILED',
  'EMPTY_RESPONSE',
  'PARSE_ERROR',
];

/** With every default filled in. */
export interface ResolvedRetry {
  readonly attempts: number;
  readonly delayMs: number;
  readonly maxDelayMs: number;
  readonly on: readonly ErrorCode[];
}

export interface ResolvedLimits {
  readonly window: number;
  readonly concurrency: number;
  readonly budget: BatchBudget;
  readonly maxFailures: number;
  readonly retry: ResolvedRetry;
}

const anAmount: OptionRule = {
  fits: (value) => typeof value === 'number' && value > 0,
  must: 'be a number above 0',
};

/** Errors: `INVALID_CONFIG`, naming the option and the cure. */
export function checkBatchOptions<T, C>(options: BatchOptions<T, C>): void {
  assertKnownOptions<BatchOptions<T, C>>('runBatch', options, optionNames);
  checkOptions(options, {
    id: { ...aName, must: 'be a string of at least one character' },
    out: { ...aName, must: 'be the path of a file' },
    total: integerFrom(0),
  });
}

/** Errors as `checkBatchOptions`. */
export function resolveLimits<T, C>(options: BatchOptions<T, C>, mostAtOnce: number | undefined): ResolvedLimits {
  const { window = 1_000, concurrency = Math.min(window, mostAtOnce ?? window), budget = {}, retry } = options;
  checkOptions({ window, concurrency }, { window: integerFrom(1), concurrency: integerFrom(1) });
  if (concurrency > window)
    throw invalidConfig(`window must be at least concurrency (${concurrency}), not ${window}`, 'raise window');
  const { maxFailures } = options;
  checkOptions({ maxFailures }, { maxFailures: integerFrom(1) });
  checkOptions(budget, { cost: anAmount, tokens: anAmount }, 'budget');
  return {
    window,
    concurrency,
    budget,
    maxFailures: maxFailures ?? Number.POSITIVE_INFINITY,
    retry: resolveRetry(retry),
  };
}

function resolveRetry(retry: BatchRetry | undefined): ResolvedRetry {
  const { attempts = retry ? 3 : 1, delayMs = 1_000, maxDelayMs = 60_000, on = passing } = retry ?? {};
  const rules = { attempts: integerFrom(1), delayMs: integerFrom(0), maxDelayMs: integerFrom(0) };
  checkOptions({ attempts, delayMs, maxDelayMs }, rules, 'retry');
  const stray = Array.isArray(on) ? on.find((code) => !errorCodes.includes(code)) : on;
  if (stray === undefined) return { attempts, delayMs, maxDelayMs, on };
  throw invalidConfig(
    `retry.on must be an array of error codes, not ${shownValue(stray)}`,
    'write ["PROVIDER_SERVER"]',
  );
}

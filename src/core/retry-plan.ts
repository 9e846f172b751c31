import { AgentLoopError, type ErrorCode, errorCodes } from './errors.ts';
import type { TurnSuspended } from './records.ts';
import { shownValue } from './shown-value.ts';
import type { LoopState } from './state.ts';
import type { TurnDeps } from './turn-deps.ts';

/**
 * How a turn survives a model that is away for minutes or hours: a model call that fails for a reason that may pass does not fail the turn,
 * which is suspended with the reason `backoff` and continues later. For failures that pass within seconds use the policy `retry`, which
 * repeats a request inside the call; the plan begins where that gives up.
 */
export interface RetryPlan {
  /** How often one model call is made at most, from 1; each answer starts the count anew. Default 5. */
  readonly attempts?: number;
  /** The longest pause after the first failure; it doubles with each. Half of it is waited at least. Milliseconds; default 10,000. */
  readonly delayMs?: number;
  /**
   * The longest pause of all. A server that asks for a longer one (`Retry-After`) fails the turn; a shorter one is waited out exactly.
   * Milliseconds; default 900,000.
   */
  readonly maxDelayMs?: number;
  /** The codes of failures that may pass. Default: those of errors that are `retryable`. */
  readonly on?: readonly ErrorCode[];
}

const defaults = { attempts: 5, delayMs: 10_000, maxDelayMs: 900_000 };

const names: ReadonlySet<string> = new Set<keyof RetryPlan>(['attempts', 'delayMs', 'maxDelayMs', 'on']);

/** What is wrong with a plan, in words that end with what it must be; `undefined` for nothing. */
export function retryPlanFlaw(plan: unknown): string | undefined {
  if (typeof plan !== 'object' || plan === null || Array.isArray(plan))
    return `must be an object { attempts, delayMs, maxDelayMs, on }, not ${shownValue(plan)}`;
  const stray = Object.keys(plan).find((name) => !names.has(name));
  if (stray !== undefined) return `has the unknown property ${stray}; allowed: ${[...names].join(', ')}`;
  const given = new Map<string, unknown>(Object.entries(plan));
  const attempts = given.get('attempts') ?? defaults.attempts;
  if (!Number.isSafeInteger(attempts) || Number(attempts) < 1)
    return `needs attempts, an integer ≥ 1, not ${shownValue(attempts)}`;
  for (const name of ['delayMs', 'maxDelayMs'] as const) {
    const ms = given.get(name) ?? defaults[name];
    if (typeof ms !== 'number' || !Number.isFinite(ms) || ms < 0)
      return `needs ${name}, milliseconds ≥ 0, not ${shownValue(ms)}`;
  }
  const on = given.get('on') ?? [];
  if (Array.isArray(on) && on.every((code) => errorCodes.some((known) => known === code))) return undefined;
  return `needs on, an array of error codes such as PROVIDER_RATE_LIMIT, not ${shownValue(on)}`;
}

/** The record of a turn that waits because its model call failed, and continues by itself; `undefined` where the failure is the turn's. */
export function backoffAfter(deps: TurnDeps, state: LoopState, error: unknown): TurnSuspended | undefined {
  const plan = planOf(deps);
  if (!plan || !mayPass(plan, error)) return undefined;
  const { attempts, delayMs, maxDelayMs } = { ...defaults, ...plan };
  const attempt = state.failedAttempts + 1;
  if (attempt >= attempts) return undefined;
  const pauseMs = error.retryAfterMs ?? Math.min(maxDelayMs, delayMs * 2 ** (attempt - 1)) * (0.5 + Math.random() / 2);
  if (pauseMs > maxDelayMs) return undefined;
  const { code, message } = error;
  const hold = { until: deps.now() + Math.ceil(pauseMs), attempt, error: { code, message } };
  return { type: 'turn.suspended', state: 'working', reason: 'backoff', questions: [], hold };
}

/** The error of a turn whose plan is used up. Others are given back as they are. */
export function withoutRetries(deps: TurnDeps, state: LoopState, error: unknown): unknown {
  const plan = planOf(deps);
  if (!plan || state.failedAttempts === 0 || !mayPass(plan, error)) return error;
  const { code, message, retryable, retryAfterMs, status } = error;
  return new AgentLoopError(code, message, {
    reason: 'retries',
    cause: error.cause ?? error,
    retryable,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    ...(status !== undefined && { status }),
  });
}

function planOf({ turn, config }: TurnDeps): RetryPlan | undefined {
  return turn.settings.retryPlan ?? config.retryPlan;
}

function mayPass({ on }: RetryPlan, error: unknown): error is AgentLoopError {
  if (!AgentLoopError.isInstance(error)) return false;
  return on ? on.includes(error.code) : error.retryable;
}

import { type ErrorCode, errorCodes } from './errors.ts';
import { shownValue } from './shown-value.ts';

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

export const retryDefaults = { attempts: 5, delayMs: 10_000, maxDelayMs: 900_000 };

const names: ReadonlySet<string> = new Set<keyof RetryPlan>(['attempts', 'delayMs', 'maxDelayMs', 'on']);

/** What is wrong with a plan, in words that end with what it must be; `undefined` for nothing. */
export function retryPlanFlaw(plan: unknown): string | undefined {
  if (typeof plan !== 'object' || plan === null || Array.isArray(plan))
    return `must be an object { attempts, delayMs, maxDelayMs, on }, not ${shownValue(plan)}`;
  const stray = Object.keys(plan).find((name) => !names.has(name));
  if (stray !== undefined) return `has the unknown property ${stray}; allowed: ${[...names].join(', ')}`;
  const given = new Map<string, unknown>(Object.entries(plan));
  const attempts = given.get('attempts') ?? retryDefaults.attempts;
  if (!Number.isSafeInteger(attempts) || Number(attempts) < 1)
    return `needs attempts, an integer ≥ 1, not ${shownValue(attempts)}`;
  for (const name of ['delayMs', 'maxDelayMs'] as const) {
    const ms = given.get(name) ?? retryDefaults[name];
    if (typeof ms !== 'number' || !Number.isFinite(ms) || ms < 0)
      return `needs ${name}, milliseconds ≥ 0, not ${shownValue(ms)}`;
  }
  const on = given.get('on') ?? [];
  if (Array.isArray(on) && on.every((code) => errorCodes.some((known) => known === code))) return undefined;
  return `needs on, an array of error codes such as PROVIDER_RATE_LIMIT, not ${shownValue(on)}`;
}

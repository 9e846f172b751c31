import { AgentLoopError, type RetryPlan, retryDefaults } from '../contracts/index.ts';
import type { LoopState, TurnSuspended } from '../journal/index.ts';
import type { Run } from './run.ts';

/** The suspension of a turn that repeats its failed model call later; `undefined` if the turn fails instead. */
export function backoffAfter(deps: Run, state: LoopState, error: unknown): TurnSuspended | undefined {
  const plan = planOf(deps);
  if (!plan || !mayPass(plan, error)) return undefined;
  const { attempts, delayMs, maxDelayMs } = { ...retryDefaults, ...plan };
  const attempt = state.failedAttempts + 1;
  if (attempt >= attempts) return undefined;
  const pauseMs = error.retryAfterMs ?? Math.min(maxDelayMs, delayMs * 2 ** (attempt - 1)) * (0.5 + Math.random() / 2);
  if (pauseMs > maxDelayMs) return undefined;
  const { code, message, details } = error;
  const data = { code, message, ...(details && { details }) };
  const hold = { until: deps.node.now() + Math.ceil(pauseMs), attempt, error: data };
  return { type: 'turn.suspended', state: 'working', reason: 'backoff', questions: [], hold };
}

/** The error of a turn whose retry plan is used up, with the reason `retries`. Other errors are returned unchanged. */
export function withoutRetries(deps: Run, state: LoopState, error: unknown): unknown {
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

function planOf({ segment: { turn, config } }: Run): RetryPlan | undefined {
  return turn.settings.retryPlan ?? config.retryPlan;
}

function mayPass({ on }: RetryPlan, error: unknown): error is AgentLoopError {
  if (!AgentLoopError.isInstance(error)) return false;
  return on ? on.includes(error.code) : error.retryable;
}

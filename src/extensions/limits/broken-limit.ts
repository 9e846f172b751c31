import type { IterationView, Usage } from '../../core/contracts/index.ts';
import type { LoopState } from '../../core/journal/index.ts';
import { estimateTokens } from '../../core/model-call/index.ts';
import { failuresInARow } from './failures-in-a-row.ts';
import { repeatedCalls } from './repeated-calls.ts';

/** Which limit a turn has run into. */
export type LimitReason =
  | 'max_wall_time'
  | 'max_tool_calls'
  | 'max_tokens'
  | 'max_cost'
  | 'max_context'
  | 'max_failures'
  | 'repeated_call';

export interface LimitValues {
  /** From the start of the turn, without the time that it was suspended. Milliseconds. */
  readonly maxWallTimeMs?: number | undefined;
  /** Tool calls of the whole turn. */
  readonly maxToolCalls?: number | undefined;
  /** Tokens of all model calls of the turn, prompts and answers. */
  readonly maxTokens?: number | undefined;
  /** Tokens of the next prompt, estimated: messages, system prompt and tools. */
  readonly maxContextTokens?: number | undefined;
  /** Of all model calls of the turn. US dollars. */
  readonly maxCost?: number | undefined;
  /** Tool calls that fail one after another. */
  readonly maxConsecutiveFailures?: number | undefined;
  /** How often the model may make the same calls one after another, or the same round of up to four different ones. */
  readonly maxRepeatedCalls?: number | undefined;
}

/** The message for a limit that ends a turn. */
export interface BrokenLimit {
  readonly reason: LimitReason;
  readonly message: string;
  /** The option, and its value. */
  readonly details: { readonly option: keyof LimitValues; readonly limit: number | undefined };
}

export interface LimitedTurn {
  readonly state: LoopState;
  readonly view: IterationView;
  /** Milliseconds since 1970. */
  readonly now: number;
  /** US dollars so far. */
  readonly cost: number;
}

/** The first limit that does not allow another model call. */
export function brokenLimit(limits: LimitValues, turn: LimitedTurn): BrokenLimit | undefined {
  const { state, now, cost } = turn;
  const { maxConsecutiveFailures, maxRepeatedCalls } = limits;
  const { history, usage } = state;
  if (now >= deadlineOf(limits, state)) return outOfTime(limits);
  const { given, retried } = state.turn;
  const since = retried?.messages ?? given;
  if (state.toolCalls - (retried?.toolCalls ?? 0) > (limits.maxToolCalls ?? Number.POSITIVE_INFINITY))
    return tooManyCalls(limits);
  const used = brokenUsage(limits, usage, cost);
  if (used) return used;
  if (maxConsecutiveFailures !== undefined) {
    const failures = failuresInARow(history, since);
    if (failures >= maxConsecutiveFailures)
      return broken(limits, 'max_failures', [`had ${failures} failed tool calls in a row`, 'maxConsecutiveFailures']);
  }
  if (maxRepeatedCalls !== undefined) {
    const times = repeatedCalls(history, since);
    if (times > maxRepeatedCalls)
      return broken(limits, 'repeated_call', [`made the same tool calls ${times} times in a row`, 'maxRepeatedCalls']);
  }
  return brokenContext(limits, turn);
}

/** The limit on tokens or cost that this usage reaches; `cost` in US dollars. */
export function brokenUsage(limits: LimitValues, { totalTokens }: Usage, cost: number): BrokenLimit | undefined {
  const { maxTokens, maxCost } = limits;
  if (maxTokens !== undefined && totalTokens >= maxTokens)
    return broken(limits, 'max_tokens', [`took ${totalTokens} of ${maxTokens} tokens`, 'maxTokens']);
  if (maxCost === undefined || cost < maxCost) return undefined;
  return broken(limits, 'max_cost', [`cost $${cost} of $${maxCost}`, 'maxCost']);
}

/** Milliseconds since 1970. */
export function deadlineOf(
  { maxWallTimeMs = Number.POSITIVE_INFINITY }: LimitValues,
  { turn, suspendedMs }: LoopState,
) {
  return turn.createdAt + suspendedMs + maxWallTimeMs;
}

export function tooManyCalls(limits: LimitValues): BrokenLimit {
  return broken(limits, 'max_tool_calls', [`asked for more than ${limits.maxToolCalls} tool calls`, 'maxToolCalls']);
}

export function outOfTime(limits: LimitValues): BrokenLimit {
  return broken(limits, 'max_wall_time', [`took ${limits.maxWallTimeMs} ms`, 'maxWallTimeMs']);
}

function brokenContext(limits: LimitValues, { view }: LimitedTurn): BrokenLimit | undefined {
  const { maxContextTokens } = limits;
  if (maxContextTokens === undefined) return undefined;
  const tokens = promptTokens(view);
  if (tokens <= maxContextTokens) return undefined;
  return broken(limits, 'max_context', [
    `has a prompt of about ${tokens} of ${maxContextTokens} tokens`,
    'maxContextTokens',
  ]);
}

function promptTokens({ messages, systemPrompt = '', tools }: IterationView): number {
  const described = tools.map((tool) => estimateTokens(JSON.stringify(tool.function)));
  return [...messages.map(estimateTokens), ...described].reduce(
    (sum, count) => sum + count,
    estimateTokens(systemPrompt),
  );
}

function broken(
  limits: LimitValues,
  reason: LimitReason,
  [what, option]: readonly [string, keyof LimitValues],
): BrokenLimit {
  const message = `The turn ${what}; raise ${option}, or give it less to do.`;
  return { reason, message, details: { option, limit: limits[option] } };
}

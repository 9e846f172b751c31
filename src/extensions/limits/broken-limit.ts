import { type IterationView, parsedJson, stableJson, type ToolCall, type Usage } from '../../core/contracts/index.ts';
import type { History, LoopState } from '../../core/journal/index.ts';
import { estimateTokens } from '../../core/model-call/index.ts';
import { hasMethods, type OptionRule, oneOf } from '../../options/option-rules.ts';

/** The limit that a turn reached. */
export type LimitReason =
  | 'max_wall_time'
  | 'max_tool_calls'
  | 'max_tokens'
  | 'max_cost'
  | 'max_context'
  | 'max_failures'
  | 'repeated_call';

export interface LimitValues {
  /** Since the start of the turn, without suspended time. Milliseconds. */
  readonly maxWallTimeMs?: number | undefined;
  /** Tool calls of the whole turn. */
  readonly maxToolCalls?: number | undefined;
  /** Tokens of all model calls of the turn, prompts and answers. */
  readonly maxTokens?: number | undefined;
  /** Tokens of the next prompt, estimated: messages, system prompt and tools. */
  readonly maxContextTokens?: number | undefined;
  /** Of all model calls of the turn. US dollars. */
  readonly maxCost?: number | undefined;
  /** Consecutive failed tool calls. */
  readonly maxConsecutiveFailures?: number | undefined;
  /** How often the model may repeat the same calls, or the same cycle of up to four different ones. */
  readonly maxRepeatedCalls?: number | undefined;
}

/** The message for a limit that ends a turn. */
export interface BrokenLimit {
  readonly reason: LimitReason;
  readonly message: string;
  /** The option and its value. */
  readonly details: { readonly option: keyof LimitValues; readonly limit: number | undefined };
}

interface LimitedTurn {
  readonly state: LoopState;
  readonly view: IterationView;
  /** Milliseconds since 1970. */
  readonly now: number;
  /** US dollars so far. */
  readonly cost: number;
}

/** Returns the first limit that forbids another model call. */
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

/** Returns the limit on tokens or cost that this usage reaches; `cost` in US dollars. */
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

/** The number of consecutive failures among the last tool calls, in call order. Ignores messages before `from`. */
function failuresInARow(history: History, from: number): number {
  let failures = 0;
  for (let index = history.length - 1; index >= from; index--) {
    const message = history.at(index);
    if (message?.role !== 'tool') continue;
    if (message.status !== 'error') break;
    failures++;
  }
  return failures;
}

/** The longest detected cycle: A, B, C, D, A, B, C, D, … */
const longestRound = 4;

/**
 * How often the model has repeated the same calls: those of its last response, or the last few responses as a
 * cycle. Calls are equal if tool and arguments are; ignores messages before `from`.
 */
function repeatedCalls(history: History, from: number): number {
  const steps = callsBackwards(history, from);
  let most = 0;
  for (let length = 1; length <= longestRound; length++) most = Math.max(most, roundsOf(steps, length));
  return most;
}

/** How often the first `length` steps repeat consecutively. */
function roundsOf(steps: readonly string[], length: number): number {
  if (steps.length < length) return 0;
  let same = length;
  while (same < steps.length && steps[same] === steps[same - length]) same++;
  return Math.floor(same / length);
}

/** The calls of each response with calls, as one string each, the last first. */
function callsBackwards(history: History, from: number): readonly string[] {
  const steps: string[] = [];
  for (let index = history.length - 1; index >= from; index--) {
    const message = history.at(index);
    if (message?.role === 'assistant' && message.toolCalls?.length) steps.push(textOfCalls(message.toolCalls));
  }
  return steps;
}

function textOfCalls(calls: readonly ToolCall[]): string {
  const texts = calls.map((call) => `${call.function.name} ${argumentsOf(call)}`);
  return texts.sort().join('\n');
}

function argumentsOf(call: ToolCall): string {
  try {
    return stableJson(parsedJson(call.function.arguments));
  } catch {
    return call.function.arguments;
  }
}

export const someDollars: OptionRule = {
  fits: (value) => typeof value === 'number' && value > 0 && Number.isFinite(value),
  must: 'be US dollars, more than 0',
};

export const aReaction = oneOf('fail', 'stop');

export const aPriceList: OptionRule = {
  fits: (value) => hasMethods(value, ['find']),
  must: 'be a list of prices, such as a ModelRegistry',
};

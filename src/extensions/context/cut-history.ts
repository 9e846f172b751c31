import { type AssistantMessage, type Message, repairHistory } from '../../core/contracts/index.ts';
import { isInstruction } from '../../core/journal/index.ts';
import { estimateTokens, type TokenCounter } from '../../core/model-call/index.ts';

export interface HistoryLimits {
  /** The maximum number of messages, without the first instruction. Absent: no limit. */
  readonly maxMessages?: number;
  /** The maximum number of tokens, including the first instruction. Absent: no limit. */
  readonly maxTokens?: number;
  /** Default {@link estimateTokens}. Called only if `maxTokens` is set, and only for messages that may be kept. */
  readonly countTokens?: TokenCounter;
}

export interface HistoryCut {
  /** The kept messages, in order: the first instruction, and the end of the history. */
  readonly messages: readonly Message[];
  /** The removed messages, in order. With `messages` they are the whole repaired history. */
  readonly removed: readonly Message[];
  /** False if even the minimum exceeds a limit. */
  readonly fits: boolean;
}

/**
 * The longest end of a history within the limits that a model accepts: a call and its results are kept or cut together.
 * Pending calls at the very end are kept unchanged. The first system or developer message is kept.
 *
 * The history is repaired first (see `repairHistory`): a result without a call is dropped, a call without a
 * result gets one. All other messages are the same objects. The newest message is always kept, with its call and the
 * call's other results; `fits` is false if that exceeds a limit. Time and memory are linear in the history.
 */
export function cutHistory(messages: readonly Message[], limits: HistoryLimits): HistoryCut {
  const whole = repairedButPending(messages);
  const instructionAt = whole.findIndex(isInstruction);
  const { start, fits } = lastPart(whole, instructionAt, limits);
  const kept = whole.slice(start);
  const removed = whole.slice(0, start);
  if (instructionAt >= 0 && instructionAt < start) kept.unshift(...removed.splice(instructionAt, 1));
  return { messages: kept, removed, fits };
}

/** The index of the longest end within the limits. After a repair, any message except a result can be the first. */
function lastPart(whole: readonly Message[], instructionAt: number, limits: HistoryLimits) {
  const { maxMessages = Number.POSITIVE_INFINITY, maxTokens, countTokens = estimateTokens } = limits;
  const tokensOf = (message: Message | undefined) => (maxTokens !== undefined && message ? countTokens(message) : 0);
  let messagesLeft = maxMessages;
  let tokensLeft = (maxTokens ?? Number.POSITIVE_INFINITY) - tokensOf(whole[instructionAt]);
  let part = { start: whole.length, fits: tokensLeft >= 0 };
  for (const [index, message] of backwards(whole)) {
    if (index === instructionAt) continue;
    messagesLeft -= 1;
    tokensLeft -= tokensOf(message);
    const fits = messagesLeft >= 0 && tokensLeft >= 0;
    if (!fits && part.start < whole.length) break;
    if (message.role !== 'tool') part = { start: index, fits };
  }
  return part;
}

function* backwards(messages: readonly Message[]): Generator<readonly [number, Message]> {
  for (let index = messages.length - 1; index >= 0; index--) {
    const message = messages[index];
    if (message) yield [index, message];
  }
}

/** As `repairHistory`, but keeps pending calls at the very end. */
function repairedButPending(messages: readonly Message[]): readonly Message[] {
  const at = messages.findLastIndex(({ role }) => role !== 'tool');
  const last = messages[at];
  if (last?.role !== 'assistant' || !last.toolCalls) return repairHistory(messages);
  const results = resultsOf(last, messages.slice(at + 1));
  if (results.length === last.toolCalls.length) return repairHistory(messages);
  return [...repairHistory(messages.slice(0, at)), last, ...results];
}

/** The results of the message's calls, one per call. */
function resultsOf({ toolCalls = [] }: AssistantMessage, results: readonly Message[]): readonly Message[] {
  const open = new Map<string, number>();
  for (const { id } of toolCalls) open.set(id, (open.get(id) ?? 0) + 1);
  return results.filter((result) => {
    if (result.role !== 'tool') return false;
    const left = open.get(result.toolCallId) ?? 0;
    open.set(result.toolCallId, left - 1);
    return left > 0;
  });
}

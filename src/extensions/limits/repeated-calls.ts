import type { ToolCall } from '../../core/contracts/index.ts';
import type { History } from '../../core/journal/index.ts';
import { stableJson } from '../../core/options/index.ts';

/** The longest round that is looked for: A, B, C, D, A, B, C, D, … */
const longestRound = 4;

/**
 * How often the model has made the same calls by now: those of its last response, or the last few responses as a round that comes
 * again and again. Calls are the same with the same tool and equal arguments; messages in front of `from` are not looked at.
 */
export function repeatedCalls(history: History, from: number): number {
  const steps = callsBackwards(history, from);
  let most = 0;
  for (let length = 1; length <= longestRound; length++) most = Math.max(most, roundsOf(steps, length));
  return most;
}

/** How often the first `length` steps come again right behind themselves. */
function roundsOf(steps: readonly string[], length: number): number {
  if (steps.length < length) return 0;
  let same = length;
  while (same < steps.length && steps[same] === steps[same - length]) same++;
  return Math.floor(same / length);
}

/** The calls of each response that has any, as one text each, the last first. */
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
    return stableJson(JSON.parse(call.function.arguments));
  } catch {
    return call.function.arguments;
  }
}

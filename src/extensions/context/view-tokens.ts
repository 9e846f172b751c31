import type { IterationView, Message, ToolDefinition } from '../../core/contracts/index.ts';
import type { TokenCounter } from '../../core/model-call/index.ts';

/** What a request holds beside its messages. */
export type RequestFrame = Pick<IterationView, 'systemPrompt' | 'tools'>;

/** What a system message and each tool cost beside their text. */
const overhead = 4;

const texts = new WeakMap<ToolDefinition['function'], string>();
const counts = new WeakMap<TokenCounter, Map<string, number>>();

/** The tokens of a request beside its messages: the system prompt and the tools that it offers. */
export function requestOverhead({ systemPrompt, tools }: RequestFrame, countTokens: TokenCounter): number {
  const system = systemPrompt === undefined ? 0 : overhead + remembered(systemPrompt, countTokens);
  return tools.reduce((sum, tool) => sum + overhead + remembered(textOfTool(tool), countTokens), system);
}

export function messageTokens(messages: readonly Message[], countTokens: TokenCounter): number {
  return messages.reduce((sum, message) => sum + countTokens(message), 0);
}

function textOfTool(tool: ToolDefinition): string {
  const known = texts.get(tool.function) ?? JSON.stringify(tool.function);
  texts.set(tool.function, known);
  return known;
}

/** The counts of the newest few texts: a turn asks for the same ones at each of its iterations. */
function remembered(text: string, countTokens: TokenCounter): number {
  const known = counts.get(countTokens) ?? new Map<string, number>();
  counts.set(countTokens, known);
  const count = known.get(text);
  if (count !== undefined) return count;
  if (known.size >= 100) known.clear();
  const counted = countTokens(text);
  known.set(text, counted);
  return counted;
}

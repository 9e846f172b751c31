import { estimateTokens } from '../../extensions/context/count-tokens.ts';
import type { ToolDefinition } from '../../tools/interfaces.ts';
import type { LLMCallParams } from '../interfaces.ts';

/** Each tool is measured once, as each message is: a history grows by a few messages a call. */
const measured = new WeakMap<ToolDefinition, number>();

/** A guess at the tokens of a request's messages and tools, by the rule of `estimateTokens`. */
export function estimatePromptTokens({ messages, tools = [] }: LLMCallParams): number {
  let tokens = 0;
  for (const message of messages) tokens += estimateTokens(message);
  for (const tool of tools) tokens += toolTokens(tool);
  return tokens;
}

function toolTokens(tool: ToolDefinition): number {
  const known = measured.get(tool);
  if (known !== undefined) return known;
  const tokens = estimateTokens(JSON.stringify(tool.function));
  measured.set(tool, tokens);
  return tokens;
}

import { AgentLoopError, type ErrorCode } from '../contracts/errors.ts';
import type { LLMCallParams, LLMResponse } from '../contracts/provider.ts';
import type { ToolDefinition } from '../contracts/tool.ts';
import type { Usage } from '../contracts/usage.ts';
import { estimateTokens } from './count-tokens.ts';

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

/** A usage that nobody told. */
export function estimatedUsage(promptTokens: number, completionTokens: number): Usage {
  return { promptTokens, completionTokens, totalTokens: promptTokens + completionTokens, estimated: true };
}

/** An answer with what requests of its call took that gave none. Its own usage is a guess where the vendor did not tell. */
export function withDiscarded(response: LLMResponse, params: LLMCallParams, discarded: Usage): LLMResponse {
  return { ...response, usage: { ...usageOfAnswer(params, response), discarded } };
}

/** What an answered request took: as the vendor says, else a guess. */
export function usageOfAnswer(params: LLMCallParams, { usage, message }: LLMResponse): Usage {
  return usage ?? estimatedUsage(estimatePromptTokens(params), estimateTokens(message));
}

/**
 * A guess at what a request took that ended without an answer, after this many tokens of output: by `error`, or because it was left. Nothing
 * where it failed without any output: nobody knows that a model worked on it. One that its caller left, or gave up waiting for, was being
 * worked on.
 */
export function usageWithoutAnswer(params: LLMCallParams, outputTokens: number, error?: unknown): Usage | undefined {
  if (outputTokens === 0 && error !== undefined && !wasLeft(error)) return undefined;
  return estimatedUsage(estimatePromptTokens(params), outputTokens);
}

const left: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['CANCELED', 'PROVIDER_TIMEOUT']);

/** Whether an error says that the caller gave a request up. With an HTTP status it was the server. */
function wasLeft(error: unknown): boolean {
  return AgentLoopError.isInstance(error) && error.status === undefined && left.has(error.code);
}

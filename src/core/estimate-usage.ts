import type { LLMCallParams, LLMResponse, Usage } from '../providers/interfaces.ts';
import type { ToolDefinition } from '../tools/interfaces.ts';
import { estimateTokens } from './count-tokens.ts';
import type { AgentLoopError, ErrorCode } from './errors.ts';

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

/** A guess at what a request took that ended without an answer, by `error` or because it was left, after this much output. */
export function usageWithoutAnswer(params: LLMCallParams, output: string, error?: AgentLoopError): Usage | undefined {
  if (output === '' && error !== undefined && wasRefused(error)) return undefined;
  return estimatedUsage(estimatePromptTokens(params), estimateTokens(output));
}

/** Failures of requests that a model began to work on. */
const worked: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'CANCELED',
  'PROVIDER_SERVER',
  'PROVIDER_PROTOCOL',
  'PROVIDER_STREAM_CLOSED',
  'PROVIDER_TIMEOUT',
  'PROVIDER_TOO_LARGE',
  'PROVIDER_FAILED',
]);

/** Whether an error says that the model never began to work on a request: an HTTP status, or a failure before it was sent. */
function wasRefused({ status, code }: AgentLoopError): boolean {
  return status !== undefined || !worked.has(code);
}

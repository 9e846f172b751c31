import type {
  CreateMessageRequest,
  CreateMessageResult,
  SamplingMessage,
  SamplingMessageContentBlock,
} from '@modelcontextprotocol/client';
import { type Context, trace } from '@opentelemetry/api';
import {
  type ContentPart,
  type LLMCallParams,
  type LLMResponse,
  type Message,
  noUsage,
  type ToolContext,
  textOf,
} from '../core/contracts/index.ts';
import { ReportedUsage } from '../core/model-call/index.ts';
import { tracedCall } from '../extensions/context/summarize.ts';
import { leaveToAttempts } from '../observability/spans/call-spans.ts';
import { turnTracing } from '../observability/spans/tracing-options.ts';
import { partOf } from './content-parts.ts';
import type { ClientSdk } from './load-sdk.ts';
import type { McpSamplingOptions } from './mcp-options.ts';

const defaultMaxTokens = 1_024;
const defaultMaxRequests = 5;
/** Codes of JSON-RPC. */
export const invalidRequest = -32_600;
const internalError = -32_603;

/** What a tool call is for the model calls that its server asks for. */
export interface SamplingCall {
  /** How many there were. */
  sampled: number;
  readonly context: ToolContext | undefined;
  /** Runs work that the server waits for, outside of the limits of time. */
  outside<T>(work: () => Promise<T>): Promise<T>;
}

interface SamplingContext {
  readonly sdk: ClientSdk;
  readonly sampling: McpSamplingOptions;
  /** The tool call that caused it. */
  readonly call: SamplingCall;
  readonly signal: AbortSignal;
}

/**
 * Asks the model of the options what a server wants to know, below the span of the tool call, and within its budget of requests. What that takes
 * counts to the turn. Text only: the model gets no tools. The server reads nothing of why a request failed.
 */
export async function answerSampling(
  params: CreateMessageRequest['params'],
  { sdk, sampling, call, signal }: SamplingContext,
): Promise<CreateMessageResult> {
  const refuse = (why: string) => new sdk.ProtocolError(invalidRequest, why);
  if (params.tools || params.toolChoice) throw refuse('this client gives the model no tools');
  const { maxRequests = defaultMaxRequests, maxTokens = defaultMaxTokens, provider, model } = sampling;
  if (call.sampled >= maxRequests) throw refuse(`a tool call may ask the model ${maxRequests} times`);
  call.sampled++;
  const { context } = call;
  const asked: LLMCallParams = {
    messages: messagesOf(params),
    maxTokens: Math.min(params.maxTokens, maxTokens),
    signal,
    ...(params.temperature !== undefined && { temperature: params.temperature }),
    ...(model !== undefined && { model }),
    ...(context && { traceContext: tracedBelow(context) }),
  };
  const reported = new ReportedUsage();
  const request: LLMCallParams = { ...asked, noteUsage: (usage) => reported.add(usage) };
  try {
    const response = await call.outside(() => tracedCall(provider, request));
    const { usage = noUsage } = reported.answered(response);
    context?.noteUsage(usage);
    context?.progress({ type: 'mcp-sampling', usage });
    return resultOf(response);
  } catch {
    if (reported.sum) context?.noteUsage(reported.sum);
    throw new sdk.ProtocolError(internalError, 'the model did not answer');
  }
}

/** In it each request that the provider makes has its span below that of the tool call, where that has one. */
function tracedBelow({ traceContext, taskId, contextId, agentId, iteration }: ToolContext): Context {
  if (!trace.getSpan(traceContext)) return traceContext;
  const tracing = turnTracing({}, { taskId, contextId, agentId });
  return leaveToAttempts({ tracing, iteration, now: () => Date.now() }, traceContext).traceContext;
}

function messagesOf({ systemPrompt, messages }: CreateMessageRequest['params']): readonly Message[] {
  const asked = messages.map(messageOf);
  return systemPrompt === undefined ? asked : [{ role: 'system', content: systemPrompt }, ...asked];
}

function messageOf({ role, content }: SamplingMessage): Message {
  return { role, content: [content].flat().flatMap(contentPart) };
}

/** Tools are not offered, so their calls and results can stand in no message. */
function contentPart(block: SamplingMessageContentBlock): readonly ContentPart[] {
  return block.type === 'tool_use' || block.type === 'tool_result' ? [] : [partOf(block)];
}

function resultOf({ message, model, finishReason }: LLMResponse): CreateMessageResult {
  return {
    role: 'assistant',
    model: model ?? 'unknown',
    content: { type: 'text', text: textOf(message.content) },
    stopReason: finishReason === 'length' ? 'maxTokens' : 'endTurn',
  };
}

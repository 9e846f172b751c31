import type {
  CreateMessageRequest,
  CreateMessageResult,
  SamplingMessage,
  SamplingMessageContentBlock,
} from '@modelcontextprotocol/sdk/types.js';
import { trace } from '@opentelemetry/api';
import { type ContentPart, type Message, textOf } from '../core/messages.ts';
import { finishLlmSpan, startLlmSpan } from '../observability/spans/llm-span.ts';
import { cancelSpan, failSpan, turnTracing } from '../observability/spans/tracing-options.ts';
import type { LLMCallParams, LLMResponse } from '../providers/interfaces.ts';
import type { ToolContext } from '../tools/interfaces.ts';
import { partOf } from './content-parts.ts';
import type { ClientSdk } from './load-sdk.ts';
import type { McpSamplingOptions } from './mcp-options.ts';
import type { OpenCall } from './open-call.ts';

const defaultMaxTokens = 1_024;
const defaultMaxRequests = 5;

export interface SamplingContext {
  readonly sdk: ClientSdk;
  readonly sampling: McpSamplingOptions;
  /** The tool call that caused it. */
  readonly call: OpenCall;
  readonly signal: AbortSignal;
}

/**
 * Asks the model of the options what a server wants to know, below the span of the tool call, and within its budget of requests. Text only:
 * the model gets no tools. The server reads nothing of why a request failed.
 */
export async function answerSampling(
  params: CreateMessageRequest['params'],
  { sdk, sampling, call, signal }: SamplingContext,
): Promise<CreateMessageResult> {
  const { McpError, ErrorCode } = sdk.types;
  const refuse = (why: string) => new McpError(ErrorCode.InvalidRequest, why);
  if (params.tools || params.toolChoice) throw refuse('this client gives the model no tools');
  const { maxRequests = defaultMaxRequests, maxTokens = defaultMaxTokens, provider, model } = sampling;
  if (call.sampled >= maxRequests) throw refuse(`a tool call may ask the model ${maxRequests} times`);
  call.sampled++;
  const request: LLMCallParams = {
    messages: messagesOf(params),
    maxTokens: Math.min(params.maxTokens, maxTokens),
    signal,
    ...(params.temperature !== undefined && { temperature: params.temperature }),
    ...(model !== undefined && { model }),
  };
  try {
    const response = await call.outside(() => traced(request, provider, call.context));
    call.context?.progress({ type: 'mcp-sampling', ...(response.usage && { usage: response.usage }) });
    return resultOf(response);
  } catch {
    throw new McpError(ErrorCode.InternalError, 'the model did not answer');
  }
}

async function traced(
  params: LLMCallParams,
  provider: McpSamplingOptions['provider'],
  context: ToolContext | undefined,
): Promise<LLMResponse> {
  if (!context || !trace.getSpan(context.traceContext)) return provider.call(params);
  const { taskId, contextId, agentId, iteration } = context;
  const tracing = turnTracing({}, { taskId, contextId, agentId });
  const { span, traceContext } = startLlmSpan(
    tracing,
    { iteration, params, info: provider.info },
    context.traceContext,
  );
  try {
    const response = await provider.call({ ...params, traceContext });
    finishLlmSpan(tracing, span, { response });
    return response;
  } catch (error) {
    if (params.signal?.aborted) cancelSpan(span);
    else failSpan(span, error);
    throw error;
  } finally {
    span.end();
  }
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

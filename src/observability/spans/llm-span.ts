import { type Attributes, type Context, type Span, SpanKind } from '@opentelemetry/api';
import type { LLMCallParams, LLMProviderInfo, LLMResponse, Usage } from '../../core/contracts/index.ts';
import { attribute } from '../attributes.ts';
import { finishReasonOf, inputContent, outputContent } from './content.ts';
import { isSilent, silentSpanBelow, startChildSpan, type TracedSpan, type TurnTracing } from './tracing-options.ts';

export interface LlmSpanCall {
  readonly iteration: number;
  readonly params: LLMCallParams;
  readonly info: LLMProviderInfo | undefined;
}

export interface LlmSpanResult {
  readonly response: LLMResponse;
  /** From the request to the first chunk; absent where nothing was streamed. */
  readonly timeToFirstChunkSeconds?: number;
}

/** Starts `llm.call`: one request to the model. Retries and hedges are siblings. */
export function startLlmSpan(tracing: TurnTracing, call: LlmSpanCall, parent: Context): TracedSpan {
  if (isSilent(tracing)) return silentSpanBelow(parent);
  const model = modelOf(call);
  const chat = model === undefined ? 'chat' : `chat ${model}`;
  const name = tracing.spanNames === 'semconv' ? chat : 'llm.call';
  const traced = startChildSpan(
    tracing,
    name,
    { key: 'llm', kind: SpanKind.CLIENT, attributes: requestAttributes(call) },
    parent,
  );
  if (tracing.captureContent && traced.span.isRecording()) {
    traced.span.setAttributes(inputContent(tracing, call.params));
  }
  return traced;
}

/** Writes what the model answered and what it took. */
export function finishLlmSpan(tracing: TurnTracing, span: Span, result: LlmSpanResult): void {
  if (!span.isRecording()) return;
  span.setAttributes(responseAttributes(result));
  if (result.response.usage !== undefined) span.setAttributes(usageAttributes(result.response.usage));
  if (tracing.captureContent) span.setAttributes(outputContent(tracing, result.response));
}

/** Writes what a request took that gave no answer, where it took something. */
export function usageOnSpan(span: Span, usage: Usage | undefined): void {
  if (usage !== undefined && span.isRecording()) span.setAttributes(usageAttributes(usage));
}

/** The one that the call asks for, else the provider's own. */
function modelOf({ params, info }: LlmSpanCall): string | undefined {
  return params.model ?? info?.model;
}

function requestAttributes(call: LlmSpanCall): Attributes {
  const { iteration, params, info } = call;
  const model = modelOf(call);
  const attributes: Attributes = {
    [attribute.spanKind]: 'LLM',
    [attribute.operationName]: 'chat',
    [attribute.iteration]: iteration,
  };
  if (info?.providerName !== undefined) attributes[attribute.providerName] = info.providerName;
  if (model !== undefined) attributes[attribute.requestModel] = model;
  if (info?.serverAddress !== undefined) attributes[attribute.serverAddress] = info.serverAddress;
  if (info?.serverPort !== undefined) attributes[attribute.serverPort] = info.serverPort;
  if (params.maxTokens !== undefined) attributes[attribute.requestMaxTokens] = params.maxTokens;
  if (params.temperature !== undefined) attributes[attribute.requestTemperature] = params.temperature;
  return attributes;
}

function responseAttributes({ response, timeToFirstChunkSeconds }: LlmSpanResult): Attributes {
  const attributes: Attributes = { [attribute.responseFinishReasons]: [finishReasonOf(response)] };
  if (response.id !== undefined) attributes[attribute.responseId] = response.id;
  if (response.model !== undefined) attributes[attribute.responseModel] = response.model;
  if (timeToFirstChunkSeconds !== undefined) attributes[attribute.responseTimeToFirstChunk] = timeToFirstChunkSeconds;
  return attributes;
}

/** What the vendor reports is `gen_ai.usage.*`, which backends add up and bill by; an estimate has names of its own. */
function usageAttributes(usage: Usage): Attributes {
  const cost = usage.cost === undefined ? {} : { [attribute.costUsd]: usage.cost };
  if (usage.estimated === true) {
    return {
      ...cost,
      [attribute.usageEstimated]: true,
      [attribute.estimatedInputTokens]: usage.promptTokens,
      [attribute.estimatedOutputTokens]: usage.completionTokens,
    };
  }
  const attributes: Attributes = {
    ...cost,
    [attribute.usageInputTokens]: usage.promptTokens,
    [attribute.usageOutputTokens]: usage.completionTokens,
  };
  if (usage.cachedTokens !== undefined) attributes[attribute.usageCacheReadInputTokens] = usage.cachedTokens;
  if (usage.reasoningTokens !== undefined) attributes[attribute.usageReasoningOutputTokens] = usage.reasoningTokens;
  return attributes;
}

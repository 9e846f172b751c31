import {
  type Attributes,
  type Context,
  createContextKey,
  type Span,
  SpanKind,
  type SpanOptions,
} from '@opentelemetry/api';
import {
  type Content,
  isModelNote,
  type LLMCallParams,
  type LLMProviderInfo,
  type LLMResponse,
  type ModelNote,
  type ToolCall,
  type Usage,
} from '../../core/contracts/index.ts';
import type { Question } from '../../core/journal/index.ts';
import { attribute } from '../attributes.ts';
import { toolKey } from './chosen-ids.ts';
import { contentJson, contentText, finishReasonOf, inputContent, outputContent } from './content.ts';
import { wantsLatestConventions } from './conventions.ts';
import { measureChunks } from './instruments.ts';
import {
  cancelSpan,
  failSpan,
  markFailed,
  silentSpanBelow,
  startChildSpan,
  type TracedSpan,
  type TurnTracing,
} from './tracing-options.ts';

const json = 'application/json';

interface LlmSpanCall {
  readonly iteration: number;
  readonly params: LLMCallParams;
  readonly info: LLMProviderInfo | undefined;
  /** Whether its answer is streamed; absent if unknown. */
  readonly isStreamed?: boolean;
}

interface LlmSpanResult {
  readonly response: LLMResponse;
  /** From the request to the first chunk; absent without streaming. */
  readonly timeToFirstChunkSeconds?: number;
}

/** Starts `llm.call`: one request to the model. Retries and hedges are siblings. */
export function startLlmSpan(tracing: TurnTracing, call: LlmSpanCall, parent: Context): TracedSpan {
  if (tracing.isSilent) return silentSpanBelow(parent);
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
    const input = inputContent(tracing, call.params);
    traced.span.setAttributes({
      ...input,
      [attribute.inputValue]: input[attribute.inputMessages],
      [attribute.inputMimeType]: json,
    });
  }
  return traced;
}

/** Records the model's answer and its usage. */
export function finishLlmSpan(tracing: TurnTracing, span: Span, result: LlmSpanResult): void {
  if (!span.isRecording()) return;
  span.setAttributes(responseAttributes(result));
  if (result.response.usage !== undefined) span.setAttributes(usageAttributes(result.response.usage));
  if (tracing.captureContent) {
    const output = outputContent(tracing, result.response);
    span.setAttributes({
      ...output,
      [attribute.outputValue]: output[attribute.outputMessages],
      [attribute.outputMimeType]: json,
    });
  }
}

/** Records the usage of a request without an answer, if any. */
export function usageOnSpan(span: Span, usage: Usage | undefined): void {
  if (usage !== undefined && span.isRecording()) span.setAttributes(usageAttributes(usage));
}

/** Records a provider's note as an event: the number of changes with their kinds and places, or a warning. Content never. */
export function noteOnSpan(span: Span, note: ModelNote): void {
  if (note.kind === 'warning') {
    span.addEvent('millrace.llm_warning', { [attribute.noteMessage]: note.message });
    return;
  }
  const { changes } = note;
  span.addEvent('millrace.request_fitted', {
    [attribute.fittedCount]: changes.length,
    [attribute.fittedChanges]: changes.slice(0, 20).map(({ kind, at, what }) => `${kind} ${at}: ${what}`),
  });
}

/** The requested model, else the provider's own. */
function modelOf({ params, info }: LlmSpanCall): string | undefined {
  return params.model ?? info?.model;
}

function requestAttributes(call: LlmSpanCall): Attributes {
  const { iteration, params, info, isStreamed } = call;
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
  if (isStreamed === true) attributes[attribute.requestStream] = true;
  if (params.responseFormat !== undefined) attributes[attribute.outputType] = 'json';
  settingAttributes(attributes, params);
  return attributes;
}

/** The attribute of each setting that has one. */
const settingNames = [
  ['maxTokens', attribute.requestMaxTokens],
  ['temperature', attribute.requestTemperature],
  ['topP', attribute.requestTopP],
  ['seed', attribute.requestSeed],
  ['parallelToolCalls', attribute.requestParallelToolCalls],
  ['cache', attribute.requestCache],
] as const;

function settingAttributes(attributes: Attributes, params: LLMCallParams): void {
  for (const [name, key] of settingNames) if (params[name] !== undefined) attributes[key] = params[name];
  const { stop, reasoning } = params;
  if (stop !== undefined) attributes[attribute.requestStopSequences] = [...stop];
  if (typeof reasoning === 'string') attributes[attribute.requestReasoning] = reasoning;
  else if (reasoning !== undefined) attributes[attribute.requestReasoningBudget] = reasoning.budgetTokens;
}

function responseAttributes({ response, timeToFirstChunkSeconds }: LlmSpanResult): Attributes {
  const attributes: Attributes = { [attribute.responseFinishReasons]: [finishReasonOf(response)] };
  if (response.id !== undefined) attributes[attribute.responseId] = response.id;
  if (response.model !== undefined) attributes[attribute.responseModel] = response.model;
  if (timeToFirstChunkSeconds !== undefined) attributes[attribute.responseTimeToFirstChunk] = timeToFirstChunkSeconds;
  return attributes;
}

/** Reported usage becomes `gen_ai.usage.*`, which backends add up for billing; estimates have other names. */
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
  if (usage.cacheWriteTokens !== undefined) {
    const { usageCacheWriteInputTokens, usageCacheCreationInputTokens } = attribute;
    const name = wantsLatestConventions() ? usageCacheWriteInputTokens : usageCacheCreationInputTokens;
    attributes[name] = usage.cacheWriteTokens;
  }
  if (usage.reasoningTokens !== undefined) attributes[attribute.usageReasoningOutputTokens] = usage.reasoningTokens;
  return attributes;
}

const attemptsKey = createContextKey('millrace: tracing of the attempts of a model call');

interface AttemptTracingOptions {
  readonly tracing: TurnTracing;
  readonly iteration: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** The data for the spans of one model call's requests. Carried by the call's trace context. */
class AttemptTracing {
  readonly options: AttemptTracingOptions;

  constructor(options: AttemptTracingOptions) {
    this.options = options;
  }
}

/** Creates no span for the model call: each request in the context gets its own below `parent`, by {@link startAttempt}. */
export function leaveToAttempts(options: AttemptTracingOptions, parent: Context): TracedSpan {
  if (options.tracing.isSilent) return silentSpanBelow(parent);
  return silentSpanBelow(parent.setValue(attemptsKey, new AttemptTracing(options)));
}

/** The context for work with its own spans: a turn that starts below a hook is not one of that hook's requests. */
export function withoutAttempts(parent: Context): Context {
  return parent.getValue(attemptsKey) === undefined ? parent : parent.deleteValue(attemptsKey);
}

/** Starts the `llm.call` span of one request. `undefined` if the call is not traced, or has a span already. */
export function startAttempt(
  params: LLMCallParams,
  { info, isStreamed }: Pick<LlmSpanCall, 'info' | 'isStreamed'>,
): AttemptSpan | undefined {
  const attempts = params.traceContext?.getValue(attemptsKey);
  if (params.traceContext === undefined || !(attempts instanceof AttemptTracing)) return undefined;
  const { tracing, iteration } = attempts.options;
  const parent = params.traceContext.deleteValue(attemptsKey);
  return new AttemptSpan(
    attempts.options,
    startLlmSpan(tracing, { iteration, params, info, isStreamed: isStreamed === true }, parent),
  );
}

/** The span of one request. Ends once, with the first of `done`, `fail` and `cancel`. */
export class AttemptSpan {
  readonly traceContext: Context;
  readonly #span: Span;
  readonly #options: AttemptTracingOptions;
  readonly #startedAt: number;
  readonly #measureChunk: (() => void) | undefined;
  #firstChunkAt: number | undefined;
  #ended = false;

  constructor(options: AttemptTracingOptions, { span, traceContext }: TracedSpan) {
    this.#options = options;
    this.#span = span;
    this.#measureChunk = measureChunks(span);
    this.traceContext = traceContext;
    this.#startedAt = options.now();
  }

  /** A chunk arrived. */
  streamed(): void {
    this.#firstChunkAt ??= this.#options.now();
    this.#measureChunk?.();
  }

  /** The provider noted something about this request. */
  noted(note: ModelNote): void {
    if (!this.#ended && this.#span.isRecording() && isModelNote(note)) noteOnSpan(this.#span, note);
  }

  done(response: LLMResponse): void {
    const waited =
      this.#firstChunkAt === undefined
        ? {}
        : { timeToFirstChunkSeconds: (this.#firstChunkAt - this.#startedAt) / 1_000 };
    this.#end((span) => finishLlmSpan(this.#options.tracing, span, { response, ...waited }));
  }

  /** `usage`: the usage of the failed request. */
  fail(error: unknown, usage?: Usage): void {
    this.#end((span) => {
      usageOnSpan(span, usage);
      failSpan(span, error);
    });
  }

  cancel(usage?: Usage): void {
    this.#end((span) => {
      usageOnSpan(span, usage);
      cancelSpan(span);
    });
  }

  #end(describe: (span: Span) => void): void {
    if (this.#ended) return;
    this.#ended = true;
    describe(this.#span);
    this.#span.end();
  }
}

interface HookSpanInput {
  readonly extension: string;
  readonly hook: string;
  readonly iteration: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** Starts `hook[extension.hook]`: one call of one hook that is asynchronous or makes its own calls, whose spans are below. */
export function startHookSpan(tracing: TurnTracing, input: HookSpanInput, parent: Context): TracedSpan {
  const { extension, hook, iteration, now } = input;
  const attributes = {
    [attribute.spanKind]: 'CHAIN',
    [attribute.extension]: extension,
    [attribute.hook]: hook,
    [attribute.iteration]: iteration,
  };
  const { span, traceContext } = startChildSpan(tracing, `hook[${extension}.${hook}]`, { attributes }, parent);
  return { span, traceContext: leaveToAttempts({ tracing, iteration, now }, traceContext).traceContext };
}

const toolsSpan: SpanOptions = { attributes: { [attribute.spanKind]: 'CHAIN' } };

/** Starts `tools.execute`: the whole batch of one iteration. */
export function startToolsSpan(tracing: TurnTracing, parent: Context): TracedSpan {
  return startChildSpan(tracing, 'tools.execute', toolsSpan, parent);
}

/** Records a question on the span of a call, or of its batch: its time, its call, and its kind. */
export function noteQuestion(span: Span, { kind, callId }: Question): void {
  span.addEvent('millrace.tool.asked', { [attribute.questionKind]: kind, [attribute.callId]: callId });
}

interface ToolSpanCall {
  /** The engine's id of the call, `<iteration>:<index>`. */
  readonly callId: string;
  readonly call: ToolCall;
  /** The arguments that the tool receives are exported only with content capture. `attempt`: the number of the start, from 1. */
  readonly intent: { readonly attempt: number; readonly arguments: unknown };
}

/** The tool's description for the model; absent if unknown. */
interface ToolSpanTool {
  readonly description?: string;
}

interface ToolSpanResult {
  /** Exported only with content capture. */
  readonly content: Content;
  readonly success: boolean;
  readonly error?: { readonly code: string; readonly message: string };
}

/** Starts `tool[name]`: one tool call. */
export function startToolSpan(
  tracing: TurnTracing,
  call: ToolSpanCall,
  parent: Context,
  { description }: ToolSpanTool = {},
): TracedSpan {
  if (tracing.isSilent) return silentSpanBelow(parent);
  const { name } = call.call.function;
  const attributes = {
    [attribute.spanKind]: 'TOOL',
    [attribute.operationName]: 'execute_tool',
    [attribute.toolName]: name,
    [attribute.toolCallId]: call.call.id,
    [attribute.toolType]: call.call.type,
    ...(description !== undefined && { [attribute.toolDescription]: description }),
    [attribute.callId]: call.callId,
  };
  const spanName = tracing.spanNames === 'semconv' ? `execute_tool ${name}` : `tool[${name}]`;
  const traced = startChildSpan(tracing, spanName, { key: toolKey(call), attributes }, parent);
  if (tracing.captureContent && traced.span.isRecording()) {
    const text = contentJson(tracing, call.intent.arguments);
    traced.span.setAttributes({
      [attribute.toolCallArguments]: text,
      [attribute.inputValue]: text,
      [attribute.inputMimeType]: json,
    });
  }
  return traced;
}

/**
 * Records the outcome of the call. A failed call has status ERROR, `error.type` and a recorded exception: that of the tool,
 * if it threw.
 */
export function finishToolSpan(tracing: TurnTracing, span: Span, result: ToolSpanResult, thrown?: unknown): void {
  if (!span.isRecording()) return;
  if (!result.success) {
    const { code, message } = result.error ?? { code: 'TOOL_FAILED', message: 'the tool reports a failure' };
    markFailed(span, { type: code, message, thrown });
  }
  if (tracing.captureContent && result.success) {
    const { content } = result;
    const isText = typeof content === 'string';
    const text = isText ? contentText(tracing, content) : contentJson(tracing, content);
    span.setAttributes({ [attribute.toolCallResult]: text, [attribute.outputValue]: text });
    if (!isText) span.setAttribute(attribute.outputMimeType, json);
  }
}

import {
  type AssistantMessage,
  type Content,
  type ContentPart,
  type LLMCallParams,
  type Message,
  type ToolCall,
  type ToolChoice,
  type ToolDefinition,
  textOf,
} from '../../core/contracts/index.ts';
import type { FittedRequest } from '../fit-request.ts';
import type { ReasoningForm, RequestRules } from '../profiles.ts';
import { wireStateOf } from './wire-state.ts';

/** How one server wants to be spoken to, beside the rules of its profile. */
export interface ChatDialect {
  readonly model: string;
  readonly rules: RequestRules;
  readonly maxTokensField?: 'max_tokens' | 'max_completion_tokens' | undefined;
  /** Where the reasoning of messages with calls goes back, whoever gave it; absent: where this server gave it. */
  readonly reasoningField?: 'reasoning_content' | 'reasoning' | undefined;
  readonly includeUsage: boolean;
  readonly sendMetadata: boolean;
  readonly extraBody?: Readonly<Record<string, unknown>> | undefined;
}

type WireCall = Readonly<Record<string, unknown>>;
type WireContent = string | readonly WirePart[];
type WirePart = ContentPart | Readonly<Record<string, unknown>>;

interface WireMessage {
  readonly role: Message['role'];
  readonly content: WireContent | null;
  readonly [member: string]: unknown;
}

/** The body of a `POST /chat/completions`. */
interface ChatRequest {
  readonly model: string;
  readonly messages: readonly WireMessage[];
  readonly stream?: true;
  readonly [member: string]: unknown;
}

/**
 * The request body for one model call: pure, the same parameters give the same body. Takes what `fitRequest` gave, and writes it down in the
 * form of this wire. Text-only content of system, assistant and tool messages goes as one string, the form that every server takes. Neither ids, dates and
 * metadata of messages nor the `status` of a tool message, nor the policy of a tool, are sent.
 */
export function chatRequest(fitted: FittedRequest, dialect: ChatDialect, streaming: boolean): ChatRequest {
  const { params, strictFormat } = fitted;
  const { rules } = dialect;
  const messages = params.messages.map((message, index) => wireMessage(message, dialect, isCurrent(params, index)));
  return {
    ...dialect.extraBody,
    ...params.providerOptions,
    model: params.model ?? dialect.model,
    messages: params.cache === true && rules.takesCacheMarks ? withCacheMarks(messages) : messages,
    ...toolMembers(params),
    ...settingMembers(params, dialect),
    ...(params.responseFormat === undefined
      ? {}
      : { response_format: wireFormat(params.responseFormat, strictFormat) }),
    ...(dialect.sendMetadata && params.metadata !== undefined ? { metadata: params.metadata } : {}),
    ...(streaming ? { stream: true as const } : {}),
    ...(streaming && dialect.includeUsage ? { stream_options: { include_usage: true } } : {}),
  };
}

function toolMembers({ tools, toolChoice, parallelToolCalls }: LLMCallParams): Readonly<Record<string, unknown>> {
  if (tools === undefined || tools.length === 0) return {};
  return {
    tools: tools.map(wireTool),
    ...(toolChoice === undefined ? {} : { tool_choice: wireToolChoice(toolChoice) }),
    ...(parallelToolCalls === undefined ? {} : { parallel_tool_calls: parallelToolCalls }),
  };
}

function settingMembers(
  { temperature, topP, stop, seed, maxTokens, reasoning }: LLMCallParams,
  { rules, maxTokensField = rules.maxTokensField }: ChatDialect,
): Readonly<Record<string, unknown>> {
  return {
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { top_p: topP }),
    ...(stop === undefined ? {} : { stop }),
    ...(seed === undefined ? {} : { seed }),
    ...(maxTokens === undefined ? {} : { [maxTokensField]: maxTokens }),
    ...(reasoning === undefined ? {} : reasoningForms[rules.reasoning](reasoning)),
  };
}

type Reasoning = NonNullable<LLMCallParams['reasoning']>;

/** How much to reason, in each server's form. */
const reasoningForms: Readonly<Record<ReasoningForm, (reasoning: Reasoning) => Readonly<Record<string, unknown>>>> = {
  none: () => ({}),
  sdk: () => ({}),
  effort: (reasoning) => ({ reasoning_effort: effortOf(reasoning) }),
  openrouter: (reasoning) => ({
    reasoning:
      typeof reasoning === 'string'
        ? reasoning === 'none'
          ? { enabled: false }
          : { effort: reasoning }
        : { max_tokens: reasoning.budgetTokens },
  }),
  switch: (reasoning) => ({ thinking: { type: isOn(reasoning) ? 'enabled' : 'disabled' } }),
  budget: (reasoning) =>
    typeof reasoning === 'string'
      ? { reasoning_effort: reasoning }
      : { thinking: { type: 'enabled', budget_tokens: reasoning.budgetTokens } },
  template: (reasoning) => ({ chat_template_kwargs: { enable_thinking: isOn(reasoning) } }),
};

function isOn(reasoning: Reasoning): boolean {
  return typeof reasoning !== 'string' ? reasoning.budgetTokens > 0 : reasoning !== 'none';
}

/** The effort that spends about so many tokens, as Google and LiteLLM translate them. */
function effortOf(reasoning: Reasoning): string {
  if (typeof reasoning === 'string') return reasoning;
  const { budgetTokens } = reasoning;
  if (budgetTokens <= 0) return 'none';
  return budgetTokens <= 1_024 ? 'low' : budgetTokens <= 8_192 ? 'medium' : 'high';
}

function wireFormat({ type, name, schema }: NonNullable<LLMCallParams['responseFormat']>, strict: boolean): unknown {
  return { type, json_schema: { name, schema, strict } };
}

function wireTool({ type, function: called }: ToolDefinition): Pick<ToolDefinition, 'type' | 'function'> {
  return { type, function: called };
}

function wireToolChoice(choice: ToolChoice): unknown {
  return typeof choice === 'string' ? choice : { type: 'function', function: { name: choice.name } };
}

/** Whether a message belongs to the running turn: it comes after the last user message. */
function isCurrent({ messages }: LLMCallParams, index: number): boolean {
  return messages.slice(index).every(({ role }) => role !== 'user');
}

function wireMessage(message: Message, dialect: ChatDialect, current: boolean): WireMessage {
  switch (message.role) {
    case 'system':
    case 'developer':
      return { role: message.role, content: compact(message.content) };
    case 'user':
      return {
        role: 'user',
        content: wireContent(message.content),
        ...(message.name && { name: wireName(message.name) }),
      };
    case 'assistant':
      return wireAssistant(message, dialect, current);
    case 'tool':
      return { role: 'tool', tool_call_id: message.toolCallId, content: compact(message.content) };
  }
}

/** In the letters that vendors take. */
function wireName(name: string): string {
  return name.replaceAll(/[^a-zA-Z0-9_-]+/g, '_').slice(0, 64);
}

function wireAssistant(message: AssistantMessage, dialect: ChatDialect, current: boolean): WireMessage {
  const { toolCalls: calls = [], reasoning } = message;
  const state = wireStateOf(message);
  const { rules, reasoningField = rules.reasoningMember } = dialect;
  const standIn = current && state === undefined ? rules.signatureStandIn : undefined;
  return {
    ...state?.message,
    ...(calls.length > 0 && state?.reasoning !== undefined && rules.reasoningBack
      ? { [state.reasoning]: reasoning ?? '' }
      : {}),
    ...(calls.length > 0 && reasoningField !== undefined ? { [reasoningField]: reasoning ?? '' } : {}),
    role: 'assistant',
    content: message.content === null ? null : compact(message.content),
    ...(calls.length === 0
      ? {}
      : { tool_calls: calls.map((call, index) => wireCall(call, state?.calls?.[index] ?? standInOf(standIn, index))) }),
  };
}

/** Google checks the signature of the first call of each step. */
function standInOf(signature: string | undefined, index: number): Readonly<Record<string, unknown>> | undefined {
  if (signature === undefined || index > 0) return undefined;
  return { extra_content: { google: { thought_signature: signature } } };
}

function wireCall({ id, function: called }: ToolCall, state: Readonly<Record<string, unknown>> | undefined): WireCall {
  const { function: within, ...beside } = state ?? {};
  const more = typeof within === 'object' && within !== null ? within : {};
  return {
    ...beside,
    id,
    type: 'function',
    function: { ...more, name: called.name, arguments: called.arguments },
  };
}

function wireContent(content: Content): WireContent {
  return typeof content === 'string' ? content : content.map(wirePart);
}

function compact(content: Content): WireContent {
  return typeof content === 'string' || content.every((part) => part.type === 'text')
    ? textOf(content)
    : wireContent(content);
}

function wirePart(part: ContentPart): WirePart {
  switch (part.type) {
    case 'text':
      return { type: 'text', text: part.text };
    case 'image_url':
      return { type: 'image_url', image_url: part.image_url };
    case 'file':
      return { type: 'file', file: part.file };
  }
}

const mark = { cache_control: { type: 'ephemeral' } };

/** Marks on the instructions, on the last message and on the last one of the request before, for vendors whose prompt cache wants them. */
function withCacheMarks(messages: readonly WireMessage[]): readonly WireMessage[] {
  const last = messages.length - 1;
  const before = messages.findLastIndex(({ role }) => role === 'assistant') - 1;
  const marked = new Set([messages.findIndex(({ role }) => role === 'system'), before, last]);
  return messages.map((message, index) =>
    marked.has(index) ? { ...message, content: markedContent(message.content) } : message,
  );
}

function markedContent(content: WireMessage['content']): WireMessage['content'] {
  if (content === null || content === '') return content;
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  return parts.map((part, index) => (index === parts.length - 1 ? { ...part, ...mark } : part));
}

import {
  type AssistantMessage,
  type Content,
  type ContentPart,
  type LLMCallParams,
  type Message,
  type ResponseFormat,
  type ToolCall,
  type ToolChoice,
  type ToolDefinition,
  type ToolMessage,
  textOf,
} from '../../core/contracts/index.ts';
import { isJsonObject, jsonIn } from './wire-errors.ts';

/** How one server wants to be spoken to. */
export interface ChatDialect {
  readonly model: string;
  /** False: calls and results of the history go as text, tools not at all. */
  readonly tools: boolean;
  readonly toolChoice: boolean;
  readonly maxTokensField: 'max_tokens' | 'max_completion_tokens';
  /** Where the reasoning of messages with calls goes back; absent: nowhere. */
  readonly reasoningField?: 'reasoning_content' | 'reasoning' | undefined;
  readonly includeUsage: boolean;
  readonly sendMetadata: boolean;
  readonly extraBody?: Readonly<Record<string, unknown>> | undefined;
}

interface WireCall {
  readonly id: string;
  readonly type: 'function';
  readonly function: { readonly name: string; readonly arguments: string };
}

type WireContent = string | readonly ContentPart[];

type WireMessage =
  | { readonly role: 'system' | 'developer' | 'user'; readonly content: WireContent; readonly name?: string }
  | {
      readonly role: 'assistant';
      readonly content: string | null;
      readonly tool_calls?: readonly WireCall[];
      readonly reasoning_content?: string;
      readonly reasoning?: string;
    }
  | { readonly role: 'tool'; readonly tool_call_id: string; readonly content: WireContent };

/** The body of a `POST /chat/completions`. */
interface ChatRequest {
  readonly model: string;
  readonly messages: readonly WireMessage[];
  readonly stream?: true;
  readonly [member: string]: unknown;
}

/**
 * The request body for one model call: pure, the same parameters give the same body. Text-only content of system, assistant
 * and tool messages goes as one string, the form that every server takes. Neither ids, dates and metadata of messages nor
 * the `status` of a tool message, nor the policy of a tool, are sent.
 */
export function chatRequest(params: LLMCallParams, dialect: ChatDialect, streaming: boolean): ChatRequest {
  const messages = dialect.tools ? params.messages : toolsAsText(params.messages);
  return {
    ...dialect.extraBody,
    ...params.providerOptions,
    model: params.model ?? dialect.model,
    messages: wireMessages(messages, dialect),
    ...toolMembers(params, dialect),
    ...(params.temperature === undefined ? {} : { temperature: params.temperature }),
    ...(params.maxTokens === undefined ? {} : { [dialect.maxTokensField]: params.maxTokens }),
    ...(params.responseFormat === undefined ? {} : { response_format: wireFormat(params.responseFormat) }),
    ...(dialect.sendMetadata && params.metadata !== undefined ? { metadata: params.metadata } : {}),
    ...(streaming ? { stream: true as const } : {}),
    ...(streaming && dialect.includeUsage ? { stream_options: { include_usage: true } } : {}),
  };
}

function toolMembers({ tools, toolChoice }: LLMCallParams, dialect: ChatDialect): Readonly<Record<string, unknown>> {
  if (!dialect.tools || tools === undefined || tools.length === 0) return {};
  return {
    tools: tools.map(wireTool),
    ...(toolChoice === undefined || !dialect.toolChoice ? {} : { tool_choice: wireToolChoice(toolChoice) }),
  };
}

function wireFormat({ type, name, schema }: ResponseFormat): unknown {
  return { type, json_schema: { name, schema, strict: true } };
}

function wireTool({ type, function: called }: ToolDefinition): Pick<ToolDefinition, 'type' | 'function'> {
  return { type, function: called };
}

function wireToolChoice(choice: ToolChoice): unknown {
  return typeof choice === 'string' ? choice : { type: 'function', function: { name: choice.name } };
}

function wireMessages(messages: readonly Message[], dialect: ChatDialect): readonly WireMessage[] {
  const ids = new ToolCallIds();
  return messages.map((message) => wireMessage(message, ids, dialect));
}

function wireMessage(message: Message, ids: ToolCallIds, dialect: ChatDialect): WireMessage {
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
      return wireAssistant(message, ids, dialect);
    case 'tool':
      return { role: 'tool', tool_call_id: ids.ofResult(message.toolCallId), content: compact(message.content) };
  }
}

/** In the letters that vendors take. */
function wireName(name: string): string {
  return name.replaceAll(/[^a-zA-Z0-9_-]+/g, '_').slice(0, 64);
}

function wireAssistant(message: AssistantMessage, ids: ToolCallIds, { reasoningField }: ChatDialect): WireMessage {
  const text = textOf(message.content);
  const calls = message.toolCalls ?? [];
  if (calls.length === 0) return { role: 'assistant', content: text };
  const wireIds = ids.ofCalls(calls);
  return {
    role: 'assistant',
    content: text === '' ? null : text,
    tool_calls: calls.map((call, index) => wireCall(call, wireIds[index] ?? call.id)),
    ...(reasoningField === undefined ? {} : { [reasoningField]: message.reasoning ?? '' }),
  };
}

function wireCall({ function: called }: ToolCall, id: string): WireCall {
  return { id, type: 'function', function: { name: called.name, arguments: wireArguments(called.arguments) } };
}

/** Servers parse the arguments of the history: none become `{}`, and anything but a JSON object is sent as `{ "_raw": … }`. */
function wireArguments(text: string): string {
  if (text.trim() === '') return '{}';
  if (isJsonObject(jsonIn(text))) return text;
  return JSON.stringify({ _raw: text });
}

function wireContent(content: Content): WireContent {
  return typeof content === 'string' ? content : content.map(wirePart);
}

function compact(content: Content): WireContent {
  return typeof content === 'string' || content.every((part) => part.type === 'text')
    ? textOf(content)
    : wireContent(content);
}

function wirePart(part: ContentPart): ContentPart {
  switch (part.type) {
    case 'text':
      return { type: 'text', text: part.text };
    case 'image_url':
      return { type: 'image_url', image_url: part.image_url };
    case 'file':
      return { type: 'file', file: part.file };
  }
}

const accepted = /^[A-Za-z0-9_-]+$/;

/** LiteLLM appends Gemini's thought signature to the id after this separator, and needs it back unchanged. */
const signature = '__thought__';

/**
 * The ids of one request's calls, as every vendor's server accepts them: only `[A-Za-z0-9_-]`, and none twice. Messages
 * are mapped in their order, so a longer history gives the earlier calls the same ids again and prompt caches still hit.
 */
export class ToolCallIds {
  readonly #used = new Set<string>();
  readonly #open = new Map<string, string[]>();
  readonly #answered = new Map<string, string>();

  /** The ids of an assistant message's calls. */
  ofCalls(calls: readonly ToolCall[]): readonly string[] {
    this.#open.clear();
    return calls.map(({ id }) => {
      const wireId = this.#unused(plain(id));
      const open = this.#open.get(id);
      if (open === undefined) this.#open.set(id, [wireId]);
      else open.push(wireId);
      return wireId;
    });
  }

  /** The id that the result of call `id` refers to: the first call of that id, in the message before, without a result. */
  ofResult(id: string): string {
    const wireId = this.#open.get(id)?.shift() ?? this.#answered.get(id) ?? plain(id);
    this.#answered.set(id, wireId);
    return wireId;
  }

  #unused(id: string): string {
    let free = id;
    for (let n = 2; this.#used.has(free); n++) free = `${id}_${n}`;
    this.#used.add(free);
    return free;
  }
}

function plain(id: string): string {
  if (accepted.test(id) || id.includes(signature)) return id;
  return id === '' ? 'call' : id.replace(/[^A-Za-z0-9_-]/g, '_');
}

/**
 * The same history for a model that knows no tools: calls become words of the assistant, the results of a batch one message
 * of the user. Messages without calls pass as they are.
 */
export function toolsAsText(messages: readonly Message[]): readonly Message[] {
  const names = new Map<string, string>();
  const texts: Message[] = [];
  let results: ContentPart[] = [];
  const flush = (): void => {
    if (results.length > 0) texts.push({ role: 'user', content: results });
    results = [];
  };
  for (const message of messages) {
    if (message.role === 'tool') {
      results.push(...resultParts(message, names.get(message.toolCallId) ?? message.toolCallId));
      continue;
    }
    flush();
    if (message.role === 'assistant')
      for (const { id, function: called } of message.toolCalls ?? []) names.set(id, called.name);
    texts.push(message.role === 'assistant' ? callsAsText(message) : message);
  }
  flush();
  return texts;
}

function callsAsText(message: AssistantMessage): Message {
  if (message.toolCalls === undefined || message.toolCalls.length === 0) return message;
  const calls = message.toolCalls.map((call) => `[called ${call.function.name} with ${call.function.arguments}]`);
  const { toolCalls: _, ...rest } = message;
  return { ...rest, content: [textOf(message.content), ...calls].filter((line) => line !== '').join('\n') };
}

function resultParts({ content, status }: ToolMessage, name: string): readonly ContentPart[] {
  const head = status === 'error' ? `[${name} failed]` : `[result of ${name}]`;
  const others = typeof content === 'string' ? [] : content.filter((part) => part.type !== 'text');
  return [{ type: 'text', text: `${head}\n${textOf(content)}` }, ...others];
}

import type { AnswerSource, LLMChunk, LLMResponse, ToolCall, Usage } from '../../core/contracts/index.ts';
import { GrowingText } from '../../core/journal/index.ts';
import { JsonText } from '../../json-prefix.ts';
import { failureIn } from '../read-failure.ts';
import { checkContent, failedFinish, finishReasonOf } from './answer-end.ts';
import { isJsonObject, type JsonObject, type ModelServer, protocolError, vendorError } from './wire-errors.ts';

/**
 * One answer of a model, put together from what the wire brings: the chunks of a stream, or the one body of an answer that
 * was not streamed. Both go through the same code, so both give the same response. Emits text, reasoning and fragments of
 * calls as they come; of several choices only the first counts. Memory: the answer's own text.
 */
export class ChatAnswer {
  readonly #server: ModelServer;
  readonly #emit: (chunk: LLMChunk) => void;
  readonly #calls: ToolCallAssembly;
  readonly #text = new GrowingText();
  readonly #reasoning = new GrowingText();
  readonly #sources = new Map<string, AnswerSource>();
  readonly #unread = new Set<string>();
  #finish: string | undefined;
  #usage: Usage | undefined;
  #id: string | undefined;
  #model: string | undefined;
  #hasChoices = false;
  #isEnded = false;

  constructor(server: ModelServer, emit: (chunk: LLMChunk) => void) {
    this.#server = server;
    this.#emit = emit;
    this.#calls = new ToolCallAssembly(emit);
  }

  /** Whether the model said that it is done, by a finish reason or by `end`. Usage may still follow. */
  get finished(): boolean {
    return this.#finish !== undefined || this.#isEnded;
  }

  /** The server says that nothing more comes: with some content, or with calls whose arguments are complete, the answer is done. */
  end(): void {
    const { size } = this.#calls;
    this.#isEnded = size > 0 ? this.#calls.areComplete : !this.#text.isEmpty;
  }

  /** Whether anything of this wire came at all. */
  get hasChoices(): boolean {
    return this.#hasChoices;
  }

  /** A chunk (`chat.completion.chunk`) or a whole completion. Throws a coded error where it is an error or of another shape. */
  add(wire: unknown): void {
    const failure = failureIn(wire);
    if (failure) throw vendorError(this.#server, failure);
    if (!isJsonObject(wire)) throw this.#wrongShape('an answer that is not a JSON object');
    this.#addHead(wire);
    const choices = wire['choices'];
    if (choices === undefined || choices === null) return;
    if (!Array.isArray(choices)) throw this.#wrongShape('choices that are not an array');
    for (const choice of choices) this.#addChoice(choice);
  }

  /** Throws a coded error where the answer is not complete. `costHeader` is what LiteLLM says of the price beside the body. */
  response(costHeader?: string | null): LLMResponse {
    const toolCalls = this.#calls.toolCalls();
    const calls = toolCalls.length === 0 ? {} : { toolCalls };
    const usage = withCost(this.#usage, costHeader);
    const content = { hasCalls: toolCalls.length > 0, hasText: !this.#text.isEmpty };
    const finishReason = finishReasonOf(this.#server, this.#finish, content);
    checkContent(this.#server, {
      ...content,
      hasReasoning: !this.#reasoning.isEmpty,
      finishReason,
      usage,
      unread: this.#unread,
    });
    return {
      message: {
        role: 'assistant',
        content: this.#text.isEmpty && toolCalls.length > 0 ? null : this.#text.toString(),
        ...calls,
        ...(this.#reasoning.isEmpty ? {} : { reasoning: this.#reasoning.toString() }),
        ...(this.#sources.size === 0 ? {} : { metadata: { sources: [...this.#sources.values()] } }),
      },
      ...calls,
      finishReason,
      ...(usage === undefined ? {} : { usage }),
      ...(this.#id === undefined ? {} : { id: this.#id }),
      ...(this.#model === undefined ? {} : { model: this.#model }),
    };
  }

  #addHead(wire: JsonObject): void {
    if (this.#id === undefined && isText(wire['id'])) this.#id = wire['id'];
    if (this.#model === undefined && isText(wire['model'])) this.#model = wire['model'];
    const pages = wire['citations'];
    if (Array.isArray(pages)) for (const url of pages) this.#addSource(url);
    const groq = wire['x_groq'];
    const usage = wire['usage'] ?? (isJsonObject(groq) ? groq['usage'] : undefined);
    if (usage !== undefined && usage !== null) this.#usage = usageOf(usage) ?? this.#usage;
  }

  #addChoice(choice: unknown): void {
    if (!isJsonObject(choice)) throw this.#wrongShape('a choice that is not an object');
    if ((choice['index'] ?? 0) !== 0) return;
    this.#hasChoices = true;
    const delta = choice['delta'] ?? choice['message'];
    if (isJsonObject(delta)) this.#addDelta(delta, delta === choice['message']);
    else if (delta !== undefined && delta !== null) throw this.#wrongShape('a message that is not an object');
    this.#addFinish(choice);
  }

  #addFinish(choice: JsonObject): void {
    const reason = choice['finish_reason'];
    if (!isText(reason) || reason === 'null') return;
    const failure = failedFinish(this.#server, reason);
    if (failure) throw failure;
    this.#finish = reason;
  }

  #addDelta(delta: JsonObject, whole: boolean): void {
    for (const name of unreadMembers(delta)) this.#unread.add(name);
    const reasoning = isText(delta['reasoning_content']) ? delta['reasoning_content'] : delta['reasoning'];
    if (isText(reasoning)) this.#addReasoning(reasoning);
    this.#addContent(delta['content']);
    this.#addAnnotations(delta['annotations']);
    if (isText(delta['refusal'])) this.#addText(delta['refusal']);
    const calls = delta['tool_calls'];
    if (Array.isArray(calls)) for (const call of calls) this.#addCall(call, whole);
    else if (calls !== undefined && calls !== null) throw this.#wrongShape('tool_calls that are not an array');
    else if (isJsonObject(delta['function_call'])) this.#addCall({ function: delta['function_call'] }, whole);
  }

  /** Pages that OpenAI, and others by LiteLLM, cite. */
  #addAnnotations(annotations: unknown): void {
    if (!Array.isArray(annotations)) return;
    for (const annotation of annotations) {
      const cited = isJsonObject(annotation) ? annotation['url_citation'] : undefined;
      if (isJsonObject(cited)) this.#addSource(cited['url'], cited['title']);
    }
  }

  /** Perplexity and xAI list addresses alone. */
  #addSource(url: unknown, title?: unknown): void {
    if (!isText(url)) return;
    const { id = `source-${this.#sources.size}`, ...known } = this.#sources.get(url) ?? {};
    this.#sources.set(url, { ...known, id, sourceType: 'url', url, ...(isText(title) && { title }) });
  }

  #addCall(call: unknown, whole: boolean): void {
    if (!isJsonObject(call)) throw this.#wrongShape('a tool call that is not an object');
    if (whole) this.#calls.addWhole(call);
    else this.#calls.addFragment(call);
  }

  /** A string, or Mistral's array of parts, with a separate thinking part. */
  #addContent(content: unknown): void {
    if (typeof content === 'string') this.#addText(content);
    else if (Array.isArray(content)) for (const part of content) this.#addPart(part);
    else if (content !== undefined && content !== null) throw this.#wrongShape('a content that is not a string');
  }

  #addPart(part: unknown): void {
    if (!isJsonObject(part)) throw this.#wrongShape('a part of a content that is not an object');
    if (isText(part['text'])) this.#addText(part['text']);
    const thinking = part['thinking'];
    if (!Array.isArray(thinking)) return;
    for (const thought of thinking) {
      if (isJsonObject(thought) && isText(thought['text'])) this.#addReasoning(thought['text']);
    }
  }

  #addText(text: string): void {
    if (text === '') return;
    this.#text.add(text);
    this.#emit({ type: 'text', text });
  }

  #addReasoning(text: string): void {
    this.#reasoning.add(text);
    this.#emit({ type: 'reasoning', text });
  }

  #wrongShape(what: string): Error {
    return protocolError(this.#server, `sent ${what}`);
  }
}

/** What `#addDelta` reads, and what says nothing of the content. */
const readMembers: ReadonlySet<string> = new Set(
  'role content refusal reasoning reasoning_content reasoning_details tool_calls function_call annotations name id type phase'.split(
    ' ',
  ),
);

/** The members of a message with something in them that nobody here reads. */
function unreadMembers(delta: JsonObject): readonly string[] {
  return Object.entries(delta).flatMap(([name, value]) => {
    const isContent = typeof value === 'string' ? value !== '' : typeof value === 'object' && value !== null;
    return isContent && !readMembers.has(name) && Object.keys(value ?? {}).length > 0 ? [name] : [];
  });
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

/** LiteLLM says 0 of a model whose price it does not know. */
function withCost(usage: Usage | undefined, header: string | null | undefined): Usage | undefined {
  if (usage === undefined || usage.cost !== undefined || !header) return usage;
  const cost = Number(header);
  return Number.isFinite(cost) && cost > 0 ? { ...usage, cost } : usage;
}

interface OpenCall {
  /** Position in the response, from 0. */
  readonly index: number;
  id: string;
  name: string;
  readonly arguments: JsonText;
}

/**
 * Puts tool calls together from their fragments and emits each fragment. A call is known by the wire's index, which may
 * start anywhere and leave gaps; where it has none, by its id, else it is the one before. A fragment with a name begins a
 * new call, whatever its index, if it also brings another id, or arguments where those of the call are complete JSON: some
 * servers give all parallel calls the index 0. Ids and names count where they first come; those of later fragments, also
 * empty ones, are ignored.
 */
class ToolCallAssembly {
  readonly #calls: OpenCall[] = [];
  readonly #byWireIndex = new Map<unknown, OpenCall>();
  /** The first of each id. */
  readonly #byId = new Map<string, OpenCall>();
  readonly #emit: (chunk: LLMChunk) => void;

  constructor(emit: (chunk: LLMChunk) => void) {
    this.#emit = emit;
  }

  get size(): number {
    return this.#calls.length;
  }

  /** Whether every call has a name, and arguments that are JSON or none. */
  get areComplete(): boolean {
    return this.#calls.every(
      ({ name, arguments: given }) => name !== '' && (given.text.trim() === '' || given.isJson()),
    );
  }

  /** A fragment of a stream. */
  addFragment(fragment: JsonObject): void {
    const parts = partsOf(fragment);
    const call = this.#callOf(fragment['index'], parts);
    this.#extend(call, parts);
  }

  /** A call that comes whole: never a part of another one. */
  addWhole(call: JsonObject): void {
    this.#extend(this.#open(undefined), partsOf(call));
  }

  /** In the order in which the calls began. A missing id or name is the empty text. */
  toolCalls(): readonly ToolCall[] {
    return this.#calls.map(({ id, name, arguments: { text } }) => ({
      id,
      type: 'function',
      function: { name, arguments: text },
    }));
  }

  #callOf(wireIndex: unknown, parts: Parts): OpenCall {
    const known =
      typeof wireIndex === 'number'
        ? this.#byWireIndex.get(wireIndex)
        : (this.#byId.get(parts.id) ?? this.#calls.at(-1));
    return known === undefined || startsAnother(known, parts) ? this.#open(wireIndex) : known;
  }

  #open(wireIndex: unknown): OpenCall {
    const call = { index: this.#calls.length, id: '', name: '', arguments: new JsonText() };
    this.#calls.push(call);
    if (typeof wireIndex === 'number') this.#byWireIndex.set(wireIndex, call);
    return call;
  }

  #extend(call: OpenCall, parts: Parts): void {
    const id = call.id === '' ? parts.id : '';
    const name = call.name === '' ? parts.name : '';
    call.id ||= id;
    if (id !== '' && !this.#byId.has(id)) this.#byId.set(id, call);
    call.name ||= name;
    call.arguments.push(parts.arguments);
    if (id === '' && name === '') {
      if (parts.arguments !== '') this.#emit({ type: 'tool-call', index: call.index, arguments: parts.arguments });
      return;
    }
    this.#emit({
      type: 'tool-call',
      index: call.index,
      ...(id === '' ? {} : { id }),
      ...(name === '' ? {} : { name }),
      ...(parts.arguments === '' ? {} : { arguments: parts.arguments }),
    });
  }
}

interface Parts {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

function partsOf(fragment: JsonObject): Parts {
  const called = isJsonObject(fragment['function']) ? fragment['function'] : {};
  const given = called['arguments'];
  return {
    id: textIn(fragment['id']),
    name: textIn(called['name']),
    arguments: isJsonObject(given) ? JSON.stringify(given) : textIn(given),
  };
}

function textIn(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function startsAnother(call: OpenCall, parts: Parts): boolean {
  if (parts.name === '' || call.name === '') return false;
  if (parts.id !== '' && call.id !== '' && parts.id !== call.id) return true;
  return parts.arguments.trim() !== '' && call.arguments.isJson();
}

/**
 * The wire's `usage`. Cached tokens in the spellings of OpenAI and DeepSeek; `cost` as LiteLLM and OpenRouter give it.
 * xAI counts reasoning beside the completion: it is added, so that `reasoningTokens` is a part of `completionTokens`
 * everywhere. `undefined` where the numbers are not there.
 */
export function usageOf(wire: unknown): Usage | undefined {
  if (!isJsonObject(wire)) return undefined;
  const promptTokens = countIn(wire, 'prompt_tokens');
  const stated = countIn(wire, 'completion_tokens');
  if (promptTokens === undefined && stated === undefined) return undefined;
  const cachedTokens =
    countIn(wire['prompt_tokens_details'], 'cached_tokens') ?? countIn(wire, 'prompt_cache_hit_tokens');
  // As LiteLLM passes Anthropic's on.
  const cacheWriteTokens = countIn(wire, 'cache_creation_input_tokens');
  const reasoningTokens = countIn(wire['completion_tokens_details'], 'reasoning_tokens');
  const prompt = promptTokens ?? 0;
  const total = countIn(wire, 'total_tokens');
  const beside = (stated ?? 0) + (reasoningTokens ?? 0);
  const completionTokens = total === prompt + beside ? beside : (stated ?? 0);
  const cost = countIn(wire, 'cost');
  return {
    promptTokens: prompt,
    completionTokens,
    totalTokens: total ?? prompt + completionTokens,
    ...(cachedTokens === undefined ? {} : { cachedTokens }),
    ...(cacheWriteTokens ? { cacheWriteTokens } : {}),
    ...(reasoningTokens === undefined ? {} : { reasoningTokens }),
    ...(cost === undefined ? {} : { cost }),
  };
}

function countIn(wire: unknown, member: string): number | undefined {
  if (!isJsonObject(wire)) return undefined;
  const value = wire[member];
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined;
}

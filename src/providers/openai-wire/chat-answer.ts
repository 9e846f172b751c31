import type { AnswerSource, FinishReason, LLMChunk, LLMResponse, ToolCall } from '../../core/contracts/index.ts';
import { GrowingText } from '../../core/journal/index.ts';
import { JsonText } from '../../json-prefix.ts';
import { UsageReader, withCost } from '../read-usage.ts';
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
  readonly #usage = new UsageReader();
  #finish: string | undefined;
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
    if (!isJsonObject(wire)) throw this.#wrongShape('an answer that is not a JSON object');
    if (wire['error'] !== undefined && wire['error'] !== null) throw vendorError(this.#server, wire['error']);
    if (wire['object'] === 'error') throw vendorError(this.#server, wire);
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
    const usage = withCost(this.#usage.usage, costHeader);
    return {
      message: {
        role: 'assistant',
        content: this.#text.isEmpty && toolCalls.length > 0 ? null : this.#text.toString(),
        ...calls,
        ...(this.#reasoning.isEmpty ? {} : { reasoning: this.#reasoning.toString() }),
        ...(this.#sources.size === 0 ? {} : { metadata: { sources: [...this.#sources.values()] } }),
      },
      ...calls,
      finishReason: finishReasonOf(this.#finish, toolCalls.length > 0),
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
    this.#usage.add(wire);
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
    if (isFailure(reason)) throw vendorError(this.#server, choice['error'] ?? { type: reason });
    this.#finish = reason;
  }

  #addDelta(delta: JsonObject, whole: boolean): void {
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

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
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

const spellings: Readonly<Record<string, FinishReason>> = {
  stop: 'stop',
  end_turn: 'stop',
  stop_sequence: 'stop',
  eos: 'stop',
  length: 'length',
  max_tokens: 'length',
  max_output_tokens: 'length',
  model_length: 'length',
  tool_calls: 'tool_calls',
  tool_use: 'tool_calls',
  function_call: 'tool_calls',
  content_filter: 'content_filter',
  refusal: 'content_filter',
  safety: 'content_filter',
  recitation: 'content_filter',
  sensitive: 'content_filter',
};

/** Why the model stopped, from any vendor's spelling. One that is not known, or none, means the end of a good answer. */
export function finishReasonOf(wire: string | undefined, hasCalls: boolean): FinishReason {
  const known = wire === undefined ? undefined : spellings[wire.toLowerCase()];
  return known ?? (hasCalls ? 'tool_calls' : 'stop');
}

const failures: ReadonlySet<string> = new Set(['error', 'abort', 'insufficient_system_resource', 'network_error']);

/** Whether a vendor says with its finish reason that the answer failed: OpenRouter, vLLM, DeepSeek, Zhipu. */
export function isFailure(wire: string): boolean {
  return failures.has(wire.toLowerCase());
}

import type { LLMChunk, LLMResponse, Usage } from '../../core/contracts/index.ts';
import { GrowingText } from '../../core/journal/index.ts';
import { finishReasonOf, isFailure } from './finish-reason.ts';
import { isJsonObject, type JsonObject } from './json-object.ts';
import type { ModelServer } from './model-server.ts';
import { ToolCallAssembly } from './tool-call-assembly.ts';
import { usageOf } from './usage.ts';
import { protocolError, vendorError } from './wire-errors.ts';

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
    const usage = withCost(this.#usage, costHeader);
    return {
      message: {
        role: 'assistant',
        content: this.#text.isEmpty && toolCalls.length > 0 ? null : this.#text.toString(),
        ...calls,
        ...(this.#reasoning.isEmpty ? {} : { reasoning: this.#reasoning.toString() }),
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
    if (isFailure(reason)) throw vendorError(this.#server, choice['error'] ?? { type: reason });
    this.#finish = reason;
  }

  #addDelta(delta: JsonObject, whole: boolean): void {
    const reasoning = isText(delta['reasoning_content']) ? delta['reasoning_content'] : delta['reasoning'];
    if (isText(reasoning)) this.#addReasoning(reasoning);
    this.#addContent(delta['content']);
    if (isText(delta['refusal'])) this.#addText(delta['refusal']);
    const calls = delta['tool_calls'];
    if (Array.isArray(calls)) for (const call of calls) this.#addCall(call, whole);
    else if (calls !== undefined && calls !== null) throw this.#wrongShape('tool_calls that are not an array');
    else if (isJsonObject(delta['function_call'])) this.#addCall({ function: delta['function_call'] }, whole);
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

/** LiteLLM says 0 of a model whose price it does not know. */
function withCost(usage: Usage | undefined, header: string | null | undefined): Usage | undefined {
  if (usage === undefined || usage.cost !== undefined || !header) return usage;
  const cost = Number(header);
  return Number.isFinite(cost) && cost > 0 ? { ...usage, cost } : usage;
}

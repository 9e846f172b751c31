import type { AnswerSource, ContentPart, LLMChunk, LLMResponse, ToolCall } from '../../core/contracts/index.ts';
import { GrowingText } from '../../core/journal/index.ts';
import { isUsualChunk } from '../find-failure.ts';
import { originMetadata } from '../model-origin.ts';
import { failureIn } from '../read-failure.ts';
import { type UsageReader, withCost } from '../read-usage.ts';
import { checkContent, failedFinish, finishReasonOf } from './answer-end.ts';
import { CallAssembly } from './call-assembly.ts';
import { ReasoningTags } from './reasoning-tags.ts';
import { isJsonObject, type JsonObject, type ModelServer, protocolError, vendorError } from './wire-errors.ts';
import { StateReader, stateMetadata, type WireState } from './wire-state.ts';

interface ChatAnswerOptions {
  /** See `originOf`. */
  readonly origin?: string;
  /** The name of a tool as the engine knows it; see `FittedRequest`. */
  readonly nameOf?: (sent: string) => string;
  /** The tag in which the model puts its reasoning into the content. */
  readonly reasoningTag?: string | undefined;
  readonly usage: UsageReader;
}

/**
 * One answer of a model, put together from what the wire brings: the chunks of a stream, or the one body of an answer that
 * was not streamed. Both go through the same code, so both give the same response. Emits text, reasoning and fragments of
 * calls as they come; of several choices only the first counts. A whole message behind its pieces adds what lacks. What the server gave for
 * itself is kept in the message's metadata. Memory: the answer's own text.
 */
export class ChatAnswer {
  readonly #server: ModelServer;
  readonly #emit: (chunk: LLMChunk) => void;
  readonly #origin: string;
  readonly #calls: CallAssembly;
  readonly #state = new StateReader();
  readonly #text = new GrowingText();
  readonly #reasoning = new GrowingText();
  readonly #media: ContentPart[] = [];
  readonly #sources = new Map<string, AnswerSource>();
  readonly #usage: UsageReader;
  #tags: ReasoningTags | undefined;
  #reasoningMember: WireState['reasoning'];
  #finish: string | undefined;
  #id: string | undefined;
  #model: string | undefined;
  #hasChoices = false;
  #hasPieces = false;
  #isEnded = false;

  constructor(
    server: ModelServer,
    emit: (chunk: LLMChunk) => void,
    { origin = '', nameOf, reasoningTag, usage }: ChatAnswerOptions,
  ) {
    this.#server = server;
    this.#emit = emit;
    this.#origin = origin;
    this.#usage = usage;
    this.#calls = new CallAssembly(emit, nameOf);
    if (reasoningTag !== undefined) this.#tags = this.#tagsOf(reasoningTag);
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
    const isUsual = isJsonObject(wire) && isUsualChunk(wire);
    // The counts of a usual chunk stand in one place.
    if (!isUsual || wire['usage']) this.#usage.add(wire);
    const failure = isUsual ? undefined : failureIn(wire);
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
    this.#tags?.end();
    const toolCalls = this.#calls.toolCalls();
    const calls = toolCalls.length === 0 ? {} : { toolCalls };
    const usage = withCost(this.#usage.usage, costHeader);
    const reasoning = this.#reasoning.toString();
    const content = { hasCalls: toolCalls.length > 0, hasText: !this.#text.isEmpty || this.#media.length > 0 };
    const finishReason = finishReasonOf(this.#server, this.#finish, content);
    const { unread } = this.#state;
    checkContent(this.#server, { ...content, hasReasoning: reasoning !== '', finishReason, usage, unread });
    const metadata = this.#metadata(toolCalls);
    return {
      message: {
        role: 'assistant',
        content: this.#content(toolCalls.length > 0),
        ...calls,
        ...(reasoning === '' ? {} : { reasoning }),
        ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
      },
      ...calls,
      finishReason,
      ...(finishReason === 'other' && this.#finish !== undefined && { finishWord: this.#finish }),
      ...(usage === undefined ? {} : { usage }),
      ...(this.#id === undefined ? {} : { id: this.#id }),
      ...(this.#model === undefined ? {} : { model: this.#model }),
    };
  }

  #content(hasCalls: boolean): string | readonly ContentPart[] | null {
    const text = this.#text.toString();
    if (this.#media.length > 0) return text === '' ? this.#media : [{ type: 'text', text }, ...this.#media];
    return text === '' && hasCalls ? null : text;
  }

  #metadata(toolCalls: readonly ToolCall[]): Readonly<Record<string, unknown>> {
    const hasCalls = toolCalls.length > 0;
    const state: WireState = {
      ...this.#state.state(toolCalls.map((_, index) => index)),
      ...(hasCalls && this.#reasoningMember !== undefined && { reasoning: this.#reasoningMember }),
    };
    const kept = stateMetadata(state);
    return {
      ...(hasCalls || Object.keys(kept).length > 0 ? originMetadata(this.#origin) : {}),
      ...kept,
      ...(this.#sources.size === 0 ? {} : { sources: [...this.#sources.values()] }),
    };
  }

  #addHead(wire: JsonObject): void {
    if (this.#id === undefined && isText(wire['id'])) this.#id = wire['id'];
    if (this.#model === undefined && isText(wire['model'])) this.#model = wire['model'];
    const pages = wire['citations'];
    if (Array.isArray(pages)) for (const url of pages) this.#addSource(url);
  }

  #addChoice(choice: unknown): void {
    if (!isJsonObject(choice)) throw this.#wrongShape('a choice that is not an object');
    if ((choice['index'] ?? 0) !== 0) return;
    this.#hasChoices = true;
    const { delta, message } = choice;
    if (isJsonObject(delta)) this.#addDelta(delta);
    else if (delta !== undefined && delta !== null) throw this.#wrongShape('a message that is not an object');
    if (isJsonObject(message)) this.#addWhole(message);
    else if (message !== undefined && message !== null) throw this.#wrongShape('a message that is not an object');
    this.#addFinish(choice);
  }

  #addFinish(choice: JsonObject): void {
    const reason = choice['finish_reason'];
    if (!isText(reason) || reason === 'null') return;
    const failure = failedFinish(this.#server, reason);
    if (failure) throw failure;
    this.#finish = reason;
  }

  #addDelta(delta: JsonObject): void {
    this.#hasPieces = true;
    if (isPlainDelta(delta)) return this.#addContent(delta['content']);
    this.#addTexts(delta);
    for (const call of this.#callsIn(delta)) this.#state.addCall(this.#calls.addFragment(call), call);
    this.#state.addMessage(withoutMark(delta));
  }

  /** A whole message: the answer, or what its pieces said already. */
  #addWhole(message: JsonObject): void {
    const { content } = message;
    const rest = this.#hasPieces && typeof content === 'string' ? this.#restOf(content) : content;
    this.#addTexts({ ...message, content: rest, ...(this.#reasoning.isEmpty ? {} : noReasoning) });
    for (const call of this.#callsIn(message)) {
      const known = this.#calls.size;
      const index = this.#calls.addWhole(call);
      if (index >= known) this.#state.addCall(index, call);
    }
    this.#state.addWhole(withoutMark(message));
  }

  /** What a whole content has more than its pieces, which may be cut off. */
  #restOf(content: string): string | null {
    const known = this.#text.toString();
    return content.startsWith(known) ? content.slice(known.length) : null;
  }

  #callsIn(message: JsonObject): readonly JsonObject[] {
    const calls = message['tool_calls'];
    if (calls === undefined || calls === null) {
      const called = message['function_call'];
      return isJsonObject(called) ? [{ function: called }] : [];
    }
    if (!Array.isArray(calls)) throw this.#wrongShape('tool_calls that are not an array');
    return calls.map((call: unknown) => {
      if (!isJsonObject(call)) throw this.#wrongShape('a tool call that is not an object');
      return call;
    });
  }

  #addTexts(message: JsonObject): void {
    const member = reasoningMemberOf(message);
    if (member !== undefined) this.#reasoningMember ??= member;
    const reasoning = member === undefined ? textOfDetails(message['reasoning_details']) : message[member];
    if (isText(reasoning)) this.#addReasoning(reasoning);
    if (isThought(message)) {
      this.#tags ??= this.#tagsOf('thought');
      this.#tags.begin();
    }
    this.#addContent(message['content']);
    this.#addImages(message['images']);
    this.#addAudio(message['audio']);
    this.#addAnnotations(message['annotations']);
    if (isText(message['refusal'])) this.#addText(message['refusal']);
  }

  #tagsOf(tag: string): ReasoningTags {
    return new ReasoningTags(tag, {
      text: (piece) => this.#emitText(piece),
      reasoning: (piece) => this.#addReasoning(piece),
    });
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

  /** A string, or an array of parts: text, pictures, and Mistral's separate thinking part. */
  #addContent(content: unknown): void {
    if (typeof content === 'string') this.#addText(content);
    else if (Array.isArray(content)) for (const part of content) this.#addPart(part);
    else if (isJsonObject(content) && isText(content['text'])) this.#addText(content['text']);
    else if (content !== undefined && content !== null) throw this.#wrongShape('a content that is not a string');
  }

  #addPart(part: unknown): void {
    if (typeof part === 'string') return this.#addText(part);
    if (!isJsonObject(part)) throw this.#wrongShape('a part of a content that is not an object');
    if (isText(part['text'])) this.#addText(part['text']);
    if (part['image_url'] !== undefined) this.#addImages([part]);
    const { thinking } = part;
    if (isText(thinking)) this.#addReasoning(thinking);
    if (!Array.isArray(thinking)) return;
    for (const thought of thinking) {
      if (isJsonObject(thought) && isText(thought['text'])) this.#addReasoning(thought['text']);
    }
  }

  /** Pictures as OpenRouter and LiteLLM give them: `{ image_url: { url } }`. */
  #addImages(images: unknown): void {
    if (!Array.isArray(images)) return;
    for (const image of images) {
      const given = isJsonObject(image) ? image['image_url'] : undefined;
      const url = isJsonObject(given) ? given['url'] : given;
      if (!isText(url) || this.#media.some((part) => part.type === 'image_url' && part.image_url.url === url)) continue;
      this.#media.push({ type: 'image_url', image_url: { url } });
    }
  }

  /** Speech counts by what it says. */
  #addAudio(audio: unknown): void {
    if (isJsonObject(audio) && isText(audio['transcript'])) this.#addText(audio['transcript']);
  }

  #addText(text: string): void {
    if (this.#tags === undefined) this.#emitText(text);
    else this.#tags.add(text);
  }

  #emitText(text: string): void {
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

/** Most pieces of most answers: text, and members without a value. */
function isPlainDelta(delta: JsonObject): boolean {
  for (const name in delta) {
    if (name !== 'content' && name !== 'role' && delta[name] !== null) return false;
  }
  return true;
}

const noReasoning = { reasoning: null, reasoning_content: null, reasoning_details: null };

/** Where the reasoning of a message stands. */
function reasoningMemberOf(message: JsonObject): WireState['reasoning'] {
  if (isText(message['reasoning_content'])) return 'reasoning_content';
  return isText(message['reasoning']) ? 'reasoning' : undefined;
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

/** OpenRouter's reasoning where it stands in the details alone. */
function textOfDetails(details: unknown): string | undefined {
  if (!Array.isArray(details)) return undefined;
  return details
    .map((detail: unknown) => (isJsonObject(detail) ? (detail['text'] ?? detail['summary']) : undefined))
    .filter(isText)
    .join('');
}

/** Google's mark of content that is a thought. */
function isThought(message: JsonObject): boolean {
  const extra = message['extra_content'];
  const google = isJsonObject(extra) ? extra['google'] : undefined;
  return isJsonObject(google) && google['thought'] === true;
}

/** The mark is about one piece of the content: it does not go back. */
function withoutMark(message: JsonObject): JsonObject {
  if (!isThought(message)) return message;
  const { extra_content: _, ...rest } = message;
  return rest;
}

import { isDeepStrictEqual } from 'node:util';
import type { AssistantMessage, LLMChunk, LLMResponse } from '../../core/contracts/index.ts';
import { GrowingText } from '../../core/journal/index.ts';
import { jsonIn } from '../json-object.ts';
import { checkContent } from '../openai-wire/answer-end.ts';
import { type ModelServer, protocolError } from '../openai-wire/wire-errors.ts';
import type { UsageReader } from '../read-usage.ts';
import { pause, sdkFinishReason } from './sdk-errors.ts';
import type {
  SdkContent,
  SdkFinishReason,
  SdkHead,
  SdkSource,
  SdkStreamPart,
  SdkToolCall,
  SdkUsage,
  SdkWholePart,
  VendorData,
} from './sdk-model.ts';
import {
  type AnswerBlock,
  type CallBlock,
  mergedData,
  messageOfBlocks,
  type PartsOrigin,
  type TextBlock,
} from './vendor-parts.ts';
import { isKeptKind, ownTexts } from './vendors.ts';

type TextType = 'text' | 'reasoning';

export interface SdkAnswerOptions {
  readonly server: ModelServer;
  readonly origin: PartsOrigin;
  /** Reads the usage of all requests. */
  readonly usage: UsageReader;
  readonly emit: (chunk: LLMChunk) => void;
  /** The name of a tool as the engine knows it; see `FittedRequest`. */
  readonly nameOf?: (sent: string) => string;
}

/** An end as the AI SDK tells it. */
export interface SdkEnd {
  readonly finishReason: SdkFinishReason;
  readonly usage: SdkUsage;
}

/**
 * One answer of a model, put together from the AI SDK's stream parts, or from the content of an answer that was not streamed, of one request or, after
 * pauses, of several. Both go
 * through the same code, so both give the same response. Emits text, reasoning and fragments of calls as they come. Tools that ran at the
 * vendor, sources and files are in the response. Memory: the answer.
 */
export class SdkAnswer {
  readonly #options: SdkAnswerOptions;
  readonly #blocks: AnswerBlock[] = [];
  readonly #openTexts = new Map<string, TextBlock>();
  readonly #calls = new Map<string, CallBlock>();
  /** Texts that so far only repeat what came before them, which is the value. */
  readonly #echoes = new Map<TextBlock, string>();
  readonly #sources: SdkSource[] = [];
  #callCount = 0;
  #reason: SdkFinishReason | undefined;
  #id: string | undefined;
  #model: string | undefined;
  #isWhole = false;

  constructor(options: SdkAnswerOptions) {
    this.#options = options;
  }

  /** Whether the model said that it is done. */
  get finished(): boolean {
    return this.#reason !== undefined;
  }

  /** Whether the vendor paused for tools of its own, and wants its answer back to continue it. */
  get paused(): boolean {
    return this.#reason?.raw === pause && this.#callCount === 0;
  }

  /** Gives the answer so far, as the last message of the request that continues it. What that request brings is added. */
  continued(): AssistantMessage {
    this.#options.usage.next();
    this.#reason = undefined;
    return messageOfBlocks(this.#blocks, { ...this.#options.origin, sources: [] });
  }

  /** A part of a stream. Throws a coded error at what cannot be taken; an `error` part is the caller's. */
  add(part: SdkStreamPart): void {
    switch (part.type) {
      case 'text-start':
      case 'reasoning-start':
        this.#openText(part.type === 'text-start' ? 'text' : 'reasoning', part.id, part.providerMetadata);
        return;
      case 'text-delta':
      case 'reasoning-delta':
        this.#addText(part.type === 'text-delta' ? 'text' : 'reasoning', part);
        return;
      case 'text-end':
      case 'reasoning-end':
        this.#closeText(part.type === 'text-end' ? 'text' : 'reasoning', part);
        return;
      case 'tool-input-start':
        if (part.providerExecuted !== true) this.#openCall(part.id, part.toolName, part.providerMetadata);
        return;
      case 'tool-input-delta':
        this.#addArguments(part.id, part.delta);
        return;
      case 'raw':
        this.#options.usage.add(part.rawValue);
        return;
      case 'response-metadata':
        this.addHead(part);
        return;
      case 'finish':
        this.finish(part);
        return;
      case 'tool-call':
      case 'tool-result':
      case 'tool-approval-request':
      case 'file':
      case 'source':
      case 'custom':
        this.#addWhole(part);
        return;
      default:
        return;
    }
  }

  /** A part of an answer that was not streamed. */
  addContent(content: SdkContent): void {
    this.#isWhole = true;
    if (!('text' in content)) {
      this.#addWhole(content);
      return;
    }
    const block = this.#openText(content.type, '', content.providerMetadata);
    block.text.add(content.text);
    this.#closeText(content.type, { id: '' });
  }

  /** What stands beside the answer. */
  addHead({ id, modelId }: SdkHead): void {
    this.#id ??= id;
    this.#model ??= modelId;
  }

  finish({ finishReason, usage }: SdkEnd): void {
    for (const block of [...this.#echoes.keys()]) this.#settleEcho(block);
    this.#reason = finishReason;
    for (const counts of sdkCounts(usage)) this.#options.usage.add(counts);
  }

  /** Throws a coded error where the answer is not complete. */
  response(): LLMResponse {
    const { server, origin } = this.#options;
    const message = messageOfBlocks(this.#blocks, { ...origin, sources: this.#sources });
    const { toolCalls } = message;
    const { usage } = this.#options.usage;
    const content = {
      hasCalls: toolCalls !== undefined || this.#blocks.some(({ type }) => type === 'vendor-call'),
      hasText: this.#blocks.some(isContent),
    };
    const isWhole = this.#isWhole && this.#blocks.length > 0;
    const finishReason = sdkFinishReason(server, { ...content, reason: this.#reason, isWhole });
    const hasReasoning = this.#blocks.some(({ type }) => type === 'reasoning');
    checkContent(server, { ...content, hasReasoning, finishReason, usage, unread: nothing });
    return {
      message,
      ...(toolCalls === undefined ? {} : { toolCalls }),
      finishReason,
      ...(usage === undefined ? {} : { usage }),
      ...(this.#id === undefined ? {} : { id: this.#id }),
      ...(this.#model === undefined ? {} : { model: this.#model }),
    };
  }

  #openText(type: TextType, id: string, data: VendorData | undefined): TextBlock {
    const block: TextBlock = { type: blockType(type, data), text: new GrowingText(), data };
    const before = this.#before(block.type);
    if (before !== '') this.#echoes.set(block, before);
    this.#blocks.push(block);
    this.#openTexts.set(`${type} ${id}`, block);
    return block;
  }

  /** The text of this type since the last block of another kind. */
  #before(type: TextBlock['type']): string {
    const texts = this.#blocks.slice(this.#blocks.findLastIndex((block) => !isText(block)) + 1).filter(isText);
    return texts.map((block) => (block.type === type ? block.text.toString() : '')).join('');
  }

  /** Some servers send the whole text again behind its pieces. */
  #settleEcho(block: TextBlock): void {
    const before = this.#echoes.get(block);
    if (before === undefined) return;
    this.#echoes.delete(block);
    const text = block.text.toString();
    if (text !== before) return this.#emitText(block, text);
    const at = this.#blocks.indexOf(block);
    const first = this.#blocks.slice(0, at).findLast((other): other is TextBlock => other.type === block.type);
    if (first !== undefined) first.data = mergedData(block.data, first.data);
    this.#blocks.splice(at, 1);
  }

  #emitText({ type }: TextBlock, text: string): void {
    if (text !== '' && type !== 'vendor-text' && !this.#isWhole) this.#options.emit({ type, text });
  }

  #addText(
    type: TextType,
    { id, delta, providerMetadata }: { id: string; delta: string; providerMetadata?: VendorData },
  ): void {
    const block = this.#openTexts.get(`${type} ${id}`) ?? this.#openText(type, id, undefined);
    block.text.add(delta);
    block.data = mergedData(block.data, providerMetadata);
    const before = this.#echoes.get(block);
    if (before === undefined) return this.#emitText(block, delta);
    const text = block.text.toString();
    if (before.startsWith(text)) return;
    this.#echoes.delete(block);
    this.#emitText(block, text);
  }

  #closeText(type: TextType, { id, providerMetadata }: { id: string; providerMetadata?: VendorData }): void {
    const block = this.#openTexts.get(`${type} ${id}`);
    this.#openTexts.delete(`${type} ${id}`);
    if (block === undefined) return;
    block.data = mergedData(block.data, providerMetadata);
    this.#settleEcho(block);
  }

  #openCall(id: string, sent: string, data: VendorData | undefined): CallBlock {
    const name = this.#options.nameOf?.(sent) ?? sent;
    const block: CallBlock = { type: 'call', index: this.#callCount++, id, name, arguments: '', data };
    this.#blocks.push(block);
    this.#calls.set(id, block);
    this.#options.emit({
      type: 'tool-call',
      index: block.index,
      ...(id === '' ? {} : { id }),
      ...(name === '' ? {} : { name }),
    });
    return block;
  }

  #addArguments(id: string, delta: string): void {
    const block = this.#calls.get(id);
    if (block === undefined || delta === '') return;
    block.arguments += delta;
    this.#options.emit({ type: 'tool-call', index: block.index, arguments: delta });
  }

  #addWhole(part: SdkWholePart): void {
    switch (part.type) {
      case 'tool-call':
        this.#addCall(part);
        return;
      case 'tool-result':
        if (part.preliminary !== true) this.#blocks.push({ type: 'vendor-result', part, data: part.providerMetadata });
        return;
      case 'file':
        this.#blocks.push({ type: 'media', part, data: part.providerMetadata });
        return;
      case 'source':
        this.#sources.push(part);
        return;
      case 'custom':
        if (isKeptKind(part.kind)) this.#blocks.push({ type: 'custom', kind: part.kind, data: part.providerMetadata });
        return;
      case 'tool-approval-request':
        throw protocolError(
          this.#options.server,
          'asks for the approval of a tool that runs at the vendor, which cannot be given: make it a tool of your own, or allow it there',
        );
    }
  }

  /** The whole call behind its fragments, whose arguments count; or one that comes without any. */
  #addCall(part: SdkToolCall): void {
    if (part.providerExecuted === true) {
      this.#blocks.push({ type: 'vendor-call', part, data: part.providerMetadata });
      return;
    }
    const known = this.#calls.get(part.toolCallId);
    const block = known ?? this.#openCall(part.toolCallId, part.toolName, undefined);
    if (block.arguments === '') this.#addArguments(part.toolCallId, part.input);
    block.arguments = part.input;
    block.data = mergedData(block.data, part.providerMetadata);
    // A later call with the same id and other arguments is another one.
    this.#calls.delete(part.toolCallId);
    const first = this.#blocks.find((other): other is CallBlock => other !== block && isSameCall(other, block));
    if (first === undefined) return;
    first.data = mergedData(block.data, first.data);
    this.#blocks.splice(this.#blocks.indexOf(block), 1);
  }
}

function isText(block: AnswerBlock): block is TextBlock {
  return block.type === 'text' || block.type === 'reasoning' || block.type === 'vendor-text';
}

/** Whether it is the same call once more: its id, its name and its arguments, however they are written. */
function isSameCall(other: AnswerBlock, call: CallBlock): boolean {
  if (other.type !== 'call' || call.id === '' || other.id !== call.id || other.name !== call.name) return false;
  return other.arguments.trim() === call.arguments.trim() || isDeepStrictEqual(argumentsOf(other), argumentsOf(call));
}

/** The value of the arguments; none are an empty object, and what is not JSON equals nothing else. */
function argumentsOf({ arguments: text }: CallBlock): unknown {
  return text.trim() === '' ? {} : (jsonIn(text) ?? Symbol(text));
}

const nothing: ReadonlySet<string> = new Set();

/** Whether the user gets something of it. */
function isContent(block: AnswerBlock): boolean {
  return block.type === 'media' || block.type === 'custom' || (block.type === 'text' && !block.text.isEmpty);
}

function blockType(type: TextType, data: VendorData | undefined): TextBlock['type'] {
  const isOwn = Object.entries(data ?? {}).some(
    ([vendor, { type: kind }]) => kind !== undefined && kind === ownTexts[vendor],
  );
  return type === 'text' && isOwn ? 'vendor-text' : type;
}

/** The vendor's own numbers, which `LiteLLMProvider` reads as well, and the package's: both providers count the same. */
function sdkCounts({ inputTokens, outputTokens, raw }: SdkUsage): readonly unknown[] {
  const ofPackage = {
    promptTokens: inputTokens.total,
    completionTokens: outputTokens.total,
    // Most packages say 0 of a vendor that says nothing.
    cachedTokens: inputTokens.cacheRead || undefined,
    cacheWriteTokens: inputTokens.cacheWrite || undefined,
    reasoningTokens: outputTokens.reasoning || undefined,
  };
  return [raw, ofPackage];
}

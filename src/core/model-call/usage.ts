import {
  AgentLoopError,
  addUsage,
  type Content,
  type ContentPart,
  type ErrorCode,
  type LLMCallParams,
  type LLMProvider,
  type LLMResponse,
  type Message,
  noUsage,
  type ToolDefinition,
  type Usage,
} from '../contracts/index.ts';
import type { StreamChunk, TerminalRecord, TurnSuspended } from '../journal/index.ts';
import type { ToolCallDeps } from '../tool-call/tool-results.ts';
import type { ModelSilence } from './limits.ts';

/** What model calls need of the run that they belong to. */
export interface ModelCallDeps extends ToolCallDeps {
  /** What the model call took that no record tells of yet. */
  readonly openCall: OpenCall;
}

/** The last model call of a run, as long as no record says what it took: that of a call which fails or is left stands at the turn's end, or where the process shuts down in a record of its own. */
export class OpenCall {
  /** Limits its silence, where that is limited. */
  silence: ModelSilence | undefined;
  #params: LLMCallParams | undefined;
  #reported: ReportedUsage | undefined;
  #response: LLMResponse | undefined;
  #error: AgentLoopError | undefined;
  #output = new StreamedTokens();

  /** A call is about to be made. Gives what its provider tells of requests without an answer. */
  begin(params: LLMCallParams, provider: LLMProvider): NonNullable<LLMCallParams['noteUsage']> {
    const reported = new ReportedUsage(params, provider);
    this.#params = params;
    this.#reported = reported;
    this.#response = undefined;
    this.#error = undefined;
    this.#output = new StreamedTokens();
    return (usage) => reported.add(usage);
  }

  /** A delta has come. */
  saw(chunk: StreamChunk): void {
    this.silence?.heard();
    if (chunk.type === 'text' || chunk.type === 'reasoning') this.#output.add(chunk.text);
    else if (chunk.type === 'tool-call') this.#output.add(chunk.arguments ?? '');
  }

  /** The answer has come. Returns it with the usage that its provider reported for failed requests. */
  answered(given: LLMResponse): LLMResponse {
    this.silence?.heard();
    const response = this.#params && this.#reported ? this.#reported.answered(given) : given;
    this.#response = response;
    return response;
  }

  /** Whether the answer is there. */
  get isAnswered(): boolean {
    return this.#response !== undefined;
  }

  failed(error: AgentLoopError): void {
    this.#error = error;
  }

  /** A record says what it took. */
  close(): void {
    this.#params = undefined;
  }

  /** What it took by now: as its provider tells, else a guess. Nothing where no call is open, or it was refused. */
  get usage(): Usage | undefined {
    if (this.#params === undefined) return undefined;
    const { usage } = this.#response ?? {};
    const taken = usage ?? this.#reported?.sum ?? usageWithoutAnswer(this.#params, this.#output.tokens, this.#error);
    return taken && taken.totalTokens > 0 ? taken : undefined;
  }

  /** What it took, for a record that says it. */
  take(): Usage | undefined {
    const { usage } = this;
    this.close();
    return usage;
  }

  /** The end of a turn, or of its current attempt, with what the call took that it ends in. */
  closedBy<R extends TerminalRecord | TurnSuspended>(end: R): R {
    const usage = this.take();
    return usage ? { ...end, usage } : end;
  }
}

/** What a provider tells of the requests of one call that gave no answer, added up. */
export class ReportedUsage {
  readonly #params: LLMCallParams;
  #sum: Usage | undefined;

  constructor(params: LLMCallParams, { tracesAttempts }: Pick<LLMProvider, 'tracesAttempts'>) {
    this.#params = params;
    this.#sum = tracesAttempts === true ? noUsage : undefined;
  }

  /** What is no usage is passed over: what broke a request shall not break how it is counted. */
  add(usage: Usage): void {
    if (isUsage(usage)) this.#sum = addUsage(this.#sum ?? noUsage, usage);
  }

  /** `undefined` if the provider reported nothing, so that usage is estimated. */
  get sum(): Usage | undefined {
    return this.#sum;
  }

  /** The answer of the call with the usage that was reported separately, unless it includes that. */
  answered(response: LLMResponse): LLMResponse {
    if (this.#sum === undefined || this.#sum.totalTokens === 0 || response.usage?.discarded) return response;
    return withDiscarded(response, this.#params, this.#sum);
  }
}

const counts = ['promptTokens', 'completionTokens', 'totalTokens'] as const;
const parts = ['cachedTokens', 'cacheWriteTokens', 'reasoningTokens', 'cost'] as const;

/** Whether a value that somebody outside gave can be counted. */
export function isUsage(usage: Usage | undefined | null): boolean {
  if (typeof usage !== 'object' || usage === null) return false;
  return counts.every((name) => isCount(usage[name])) && parts.every((name) => isCount(usage[name] ?? 0));
}

function isCount(value: number): boolean {
  return Number.isFinite(value) && value >= 0;
}

/** Each tool is measured once, as each message is: a history grows by a few messages a call. */
const measured = new WeakMap<ToolDefinition, number>();

/** A guess at the tokens of a request's messages and tools, by the rule of `estimateTokens`. */
export function estimatePromptTokens({ messages, tools = [] }: LLMCallParams): number {
  let tokens = 0;
  for (const message of messages) tokens += estimateTokens(message);
  for (const tool of tools) tokens += toolTokens(tool);
  return tokens;
}

function toolTokens(tool: ToolDefinition): number {
  const known = measured.get(tool);
  if (known !== undefined) return known;
  const tokens = estimateTokens(JSON.stringify(tool.function));
  measured.set(tool, tokens);
  return tokens;
}

/** A usage that nobody told. */
export function estimatedUsage(promptTokens: number, completionTokens: number): Usage {
  return { promptTokens, completionTokens, totalTokens: promptTokens + completionTokens, estimated: true };
}

/** An answer with what requests of its call took that gave none. Its own usage is a guess where the vendor did not tell. */
export function withDiscarded(response: LLMResponse, params: LLMCallParams, discarded: Usage): LLMResponse {
  return { ...response, usage: { ...usageOfAnswer(params, response), discarded } };
}

/** What an answered request took: as the vendor says, else a guess. */
export function usageOfAnswer(params: LLMCallParams, { usage, message }: LLMResponse): Usage {
  return usage ?? estimatedUsage(estimatePromptTokens(params), estimateTokens(message));
}

/**
 * A guess at what a request took that ended without an answer, after this many tokens of output: by `error`, or because it was left. Nothing
 * where it failed without any output: nobody knows that a model worked on it. One that its caller left, or gave up waiting for, was being
 * worked on.
 */
export function usageWithoutAnswer(params: LLMCallParams, outputTokens: number, error?: unknown): Usage | undefined {
  if (outputTokens === 0 && error !== undefined && !wasLeft(error)) return undefined;
  return estimatedUsage(estimatePromptTokens(params), outputTokens);
}

const left: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['CANCELED', 'PROVIDER_TIMEOUT']);

/** Whether an error says that the caller gave a request up. With an HTTP status it was the server. */
function wasLeft(error: unknown): boolean {
  return AgentLoopError.isInstance(error) && error.status === undefined && left.has(error.code);
}

/** The number of tokens of a string or a message. Synchronous; an integer ≥ 0. */
export type TokenCounter = (what: string | Message) => number;

/** What a chat message costs beside its content: its role and its separators. */
const messageOverhead = 4;
const callOverhead = 8;
const imageTokens = { low: 85, high: 1_100, auto: 1_100 };
/** For a file whose content is not in the message. */
const unseenFileTokens = 1_000;

/**
 * Estimates tokens by characters, for any model: a quarter of a token for each ASCII character, a half for the other
 * characters of alphabets (Latin, Greek, Cyrillic, Arabic, …), a whole one from U+2E80 on (Chinese, Japanese, Korean,
 * each half of an emoji). A message adds its calls, its reasoning, 4 for itself and 8 for each call; an image counts 1,100 (85 with
 * `detail: 'low'`), a file a quarter of a token for each byte, 1,000 where only its id is there. The count of a message is remembered
 * for as long as the message lives, so it must not be changed afterwards.
 */
export const estimateTokens: TokenCounter = tokenCounter(textTokens);

/** Makes a counter of texts into one of messages as well, as `estimateTokens` tells: counting a growing history again and again stays linear. */
export function tokenCounter(countText: (text: string) => number): TokenCounter {
  const counted = new WeakMap<Message, number>();
  return (what) => {
    if (typeof what === 'string') return countText(what);
    const known = counted.get(what);
    if (known !== undefined) return known;
    const count = messageTokens(what, countText);
    counted.set(what, count);
    return count;
  };
}

function messageTokens(message: Message, countText: (text: string) => number): number {
  let count = messageOverhead + contentTokens(message.content, countText);
  if (message.role !== 'assistant') return count;
  if (message.reasoning !== undefined) count += countText(message.reasoning);
  for (const call of message.toolCalls ?? []) {
    count += callOverhead + countText(call.function.name) + countText(call.function.arguments);
  }
  return count;
}

function contentTokens(content: Content | null, countText: (text: string) => number): number {
  if (content === null) return 0;
  if (typeof content === 'string') return countText(content);
  return content.reduce((count, part) => count + partTokens(part, countText), 0);
}

function partTokens(part: ContentPart, countText: (text: string) => number): number {
  if (part.type === 'text') return countText(part.text);
  if (part.type === 'image_url') return imageTokens[part.image_url.detail ?? 'auto'];
  const base64 = part.file.file_data;
  return base64 === undefined ? unseenFileTokens : Math.ceil((base64.length * 3) / 16);
}

/** Estimates the tokens of a string by its characters; see `estimateTokens` for the rule. Rounds up. Linear. */
function textTokens(text: string): number {
  return Math.ceil(quartersOf(text) / 4);
}

/** Counts the tokens of a string that arrives in pieces, like `textTokens` for the whole; buffers nothing. */
export class StreamedTokens {
  #quarters = 0;

  add(piece: string): void {
    this.#quarters += quartersOf(piece);
  }

  get tokens(): number {
    return Math.ceil(this.#quarters / 4);
  }
}

/** Tokens times four. */
function quartersOf(text: string): number {
  let quarters = 0;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    quarters += unit < 0x80 ? 1 : unit < 0x2e80 ? 2 : 4;
  }
  return quarters;
}

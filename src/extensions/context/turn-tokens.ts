import type { IterationView, LLMCallParams, Message, ToolDefinition, Usage } from '../../core/contracts/index.ts';
import { isInstruction, type LoopState } from '../../core/journal/index.ts';
import { estimateTokens, type TokenCounter } from '../../core/model-call/index.ts';
import { isSummary } from './compaction.ts';

/** The size of one turn's requests: as the vendor reported it, else counted. Each message is counted once. */
export class TurnTokens {
  readonly #counter: TokenCounter;
  readonly #calibrated: CalibratedCounter;
  /** The last request of this process. */
  #request: { readonly iteration: number; readonly params: LLMCallParams } | undefined;
  #tools: LLMCallParams['tools'];
  #toolTokens = 0;

  constructor(counter: TokenCounter) {
    this.#counter = oncePerMessage(counter);
    this.#calibrated = calibrate(this.#counter);
  }

  /** Counts calibrated by the vendor's reports. */
  get countTokens(): TokenCounter {
    return this.#calibrated.countTokens;
  }

  noteRequest(iteration: number, params: LLMCallParams): void {
    this.#request = { iteration, params };
  }

  /** The server refused this request as too long, and counted at least so many tokens if it said so. Returns its approximate size. */
  refused(params: LLMCallParams, atLeast: number): number {
    const counted = this.#tokensOf(params);
    if (atLeast > counted * this.#calibrated.factor) this.#calibrated.learn(counted, { promptTokens: atLeast });
    return Math.ceil(counted * this.#calibrated.factor);
  }

  /** The approximate size of messages. */
  of(messages: readonly Message[]): number {
    return Math.ceil(sumOf(messages, this.#counter) * this.#calibrated.factor);
  }

  /** The approximate size of a request with the current history, if it is built like the last one. */
  nextRequest({ lastResponse, history }: LoopState, visible: () => readonly Message[]): number {
    if (!lastResponse) return this.of(visible());
    const { iteration, usage, message } = lastResponse;
    const request = this.#request?.iteration === iteration ? this.#request : undefined;
    const requested = request && this.#tokensOf(request.params);
    if (requested !== undefined && usage) this.#calibrated.learn(requested, usage);
    const added = messageTokens(messagesAfter(history, message), this.countTokens);
    if (isReported(usage)) return usage.promptTokens + answerTokens(usage) + added;
    if (requested === undefined) return this.of(visible());
    return Math.ceil(requested * this.#calibrated.factor) + this.countTokens(message) + added;
  }

  #tokensOf({ messages, tools }: LLMCallParams): number {
    if (tools !== this.#tools) {
      this.#tools = tools;
      this.#toolTokens = requestOverhead({ systemPrompt: undefined, tools: tools ?? [] }, this.#counter);
    }
    return this.#toolTokens + sumOf(messages, this.#counter);
  }
}

/** By counter, and by the first message of a conversation: what was counted last. */
const sums = new WeakMap<TokenCounter, WeakMap<Message, Record<'front' | 'rest', MessageSum>>>();

/** The tokens of a list of messages, as {@link messageTokens} counts them. Of the messages of a conversation only those are counted that its previous list lacks. */
export function sumOf(messages: readonly Message[], counter: TokenCounter): number {
  const once = oncePerMessage(counter);
  const start = messages.findIndex((message) => !isInstruction(message) && !isSummary(message));
  const first = messages[start];
  if (!first) return messageTokens(messages, once);
  const known = sums.get(once) ?? new WeakMap<Message, Record<'front' | 'rest', MessageSum>>();
  sums.set(once, known);
  const sum = known.get(first) ?? { front: new MessageSum(once), rest: new MessageSum(once) };
  known.set(first, sum);
  // Copies: whoever has the list may change it.
  return sum.front.of(messages.slice(0, start)) + sum.rest.of(messages.slice(start));
}

/** Sums the tokens of arrays that share most messages: counts only the messages that differ from the previous array. */
class MessageSum {
  readonly #counter: TokenCounter;
  #messages: readonly Message[] = [];
  #sum = 0;

  constructor(counter: TokenCounter) {
    this.#counter = counter;
  }

  of(messages: readonly Message[]): number {
    const before = this.#messages;
    const longest = Math.max(before.length, messages.length);
    let sum = this.#sum;
    for (let index = 0; index < longest; index++) {
      const [old, message] = [before[index], messages[index]];
      if (old === message || (old && message && isSameFront(old, message))) continue;
      if (old) sum -= this.#counter(old);
      if (message) sum += this.#counter(message);
    }
    this.#messages = messages;
    this.#sum = sum;
    return sum;
  }
}

/** Instructions, or a summary, in two objects. */
function isSameFront(one: Message, other: Message): boolean {
  const isFront = isInstruction(one) || isSummary(one);
  return isFront && one.role === other.role && one.content === other.content;
}

/** By a caller's counter, and by itself: the one that counts each message once. */
const counters = new WeakMap<TokenCounter, TokenCounter>();

/** A caller's counter may have no cache. */
function oncePerMessage(counter: TokenCounter): TokenCounter {
  if (counter === estimateTokens) return counter;
  const known = counters.get(counter);
  if (known) return known;
  const counted = new WeakMap<Message, number>();
  const once: TokenCounter = (what) => {
    if (typeof what === 'string') return counter(what);
    const count = counted.get(what) ?? counter(what);
    counted.set(what, count);
    return count;
  };
  counters.set(counter, once).set(once, once);
  return once;
}

function isReported(usage: Usage | undefined): usage is Usage {
  return usage !== undefined && usage.estimated !== true && usage.promptTokens > 0;
}

/** Reasoning is not sent again. */
function answerTokens({ completionTokens, reasoningTokens = 0 }: Usage): number {
  return Math.max(completionTokens - reasoningTokens, 0);
}

/** The messages after the last answer. */
function messagesAfter(history: LoopState['history'], answer: Message): readonly Message[] {
  const newer: Message[] = [];
  for (let place = history.length - 1; place >= 0; place--) {
    const message = history.at(place);
    if (!message || message === answer || message.role === 'assistant') break;
    newer.push(message);
  }
  return newer;
}

/** A counter that is calibrated by the vendor's reports. */
interface CalibratedCounter {
  /** The counts of the wrapped counter, times the factor, rounded up. */
  readonly countTokens: TokenCounter;
  /** Reported tokens per counted token; 1 before the first report. Between 1/4 and 4. */
  readonly factor: number;
  /**
   * Learns from one model call: the *wrapped* counter's count of its whole request (messages and tools), and the
   * reported usage. Ignores an estimated usage, and a count of 0.
   */
  learn(counted: number, usage: Pick<Usage, 'promptTokens' | 'estimated'>): void;
}

/** Each call weighs twice as much as the previous one. */
const decay = 0.5;
const largestFactor = 4;

/**
 * Calibrates a counter by the provider's reported usage. The factor is reported by counted tokens, with the
 * most weight on the latest calls, so it adapts to the language and the model of the conversation. Stores two numbers;
 * cached counts of the wrapped counter stay valid, because the factor is applied on read.
 */
export function calibrate(counter: TokenCounter = estimateTokens): CalibratedCounter {
  let counted = 0;
  let reported = 0;
  const factor = () => (counted === 0 ? 1 : Math.min(Math.max(reported / counted, 1 / largestFactor), largestFactor));
  return {
    countTokens: (what) => Math.ceil(counter(what) * factor()),
    get factor() {
      return factor();
    },
    learn: (count, usage) => {
      if (usage.estimated === true || count <= 0 || usage.promptTokens <= 0) return;
      counted = counted * decay + count;
      reported = reported * decay + usage.promptTokens;
    },
  };
}

/** The parts of a request beside its messages. */
type RequestFrame = Pick<IterationView, 'systemPrompt' | 'tools'>;

/** The tokens of a system message and of each tool beside their text. */
const overhead = 4;

const texts = new WeakMap<ToolDefinition['function'], string>();
const counts = new WeakMap<TokenCounter, Map<string, number>>();

/** The tokens of a request beside its messages: the system prompt and the offered tools. */
export function requestOverhead({ systemPrompt, tools }: RequestFrame, countTokens: TokenCounter): number {
  const system = systemPrompt === undefined ? 0 : overhead + remembered(systemPrompt, countTokens);
  return tools.reduce((sum, tool) => sum + overhead + remembered(textOfTool(tool), countTokens), system);
}

export function messageTokens(messages: readonly Message[], countTokens: TokenCounter): number {
  let sum = 0;
  for (const message of messages) sum += countTokens(message);
  return sum;
}

function textOfTool(tool: ToolDefinition): string {
  const known = texts.get(tool.function) ?? JSON.stringify(tool.function);
  texts.set(tool.function, known);
  return known;
}

/** Caches the counts of the newest few texts: a turn uses the same ones in each of its iterations. */
function remembered(text: string, countTokens: TokenCounter): number {
  const known = counts.get(countTokens) ?? new Map<string, number>();
  counts.set(countTokens, known);
  const count = known.get(text);
  if (count !== undefined) return count;
  if (known.size >= 100) known.clear();
  const counted = countTokens(text);
  known.set(text, counted);
  return counted;
}

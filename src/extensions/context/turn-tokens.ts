import type { LLMCallParams, Message, Usage } from '../../core/contracts/index.ts';
import type { LoopState } from '../../core/journal/index.ts';
import type { TokenCounter } from '../../core/model-call/index.ts';
import { type CalibratedCounter, calibrate } from './calibrate.ts';
import { messageTokens, requestOverhead } from './view-tokens.ts';

/** How large the requests of one turn are: what the vendor reported where it did, else counted. */
export class TurnTokens {
  readonly #counter: TokenCounter;
  readonly #calibrated: CalibratedCounter;
  /** The last request of this process, counted. */
  #request: { readonly iteration: number; readonly tokens: number } | undefined;

  constructor(counter: TokenCounter) {
    this.#counter = counter;
    this.#calibrated = calibrate(counter);
  }

  /** Counts in the vendor's tokens, as far as its reports tell. */
  get countTokens(): TokenCounter {
    return this.#calibrated.countTokens;
  }

  noteRequest(iteration: number, { messages, tools = [] }: LLMCallParams): void {
    const frame = requestOverhead({ systemPrompt: undefined, tools }, this.#counter);
    this.#request = { iteration, tokens: frame + messageTokens(messages, this.#counter) };
  }

  /** About what a request of the history as it is now would take, made like the last one. */
  nextRequest({ lastResponse, history }: LoopState, visible: () => readonly Message[]): number {
    if (!lastResponse) return messageTokens(visible(), this.countTokens);
    const { iteration, usage, message } = lastResponse;
    const request = this.#request?.iteration === iteration ? this.#request : undefined;
    if (request && usage) this.#calibrated.learn(request.tokens, usage);
    const added = messageTokens(messagesBehind(history, message), this.countTokens);
    if (isReported(usage)) return usage.promptTokens + answerTokens(usage) + added;
    if (!request) return messageTokens(visible(), this.countTokens);
    return Math.ceil(request.tokens * this.#calibrated.factor) + this.countTokens(message) + added;
  }
}

function isReported(usage: Usage | undefined): usage is Usage {
  return usage !== undefined && usage.estimated !== true && usage.promptTokens > 0;
}

/** Reasoning is not sent again. */
function answerTokens({ completionTokens, reasoningTokens = 0 }: Usage): number {
  return Math.max(completionTokens - reasoningTokens, 0);
}

/** What came after the last answer. */
function messagesBehind(history: LoopState['history'], answer: Message): readonly Message[] {
  const behind: Message[] = [];
  for (let place = history.length - 1; place >= 0; place--) {
    const message = history.at(place);
    if (!message || message === answer || message.role === 'assistant') break;
    behind.push(message);
  }
  return behind;
}

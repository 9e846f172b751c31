import { tap } from 'rxjs';
import {
  AgentLoopError,
  addUsage,
  type LLMCallParams,
  type LLMChunk,
  type LLMResponse,
  noUsage,
  type Usage,
} from '../../core/contracts/index.ts';
import { estimatePromptTokens, estimateTokens, quartersOf } from '../../core/model-call/index.ts';
import { type AroundCall, type CallEnd, watchCall } from './around-calls.ts';

/** An estimated usage. */
export function estimatedUsage(promptTokens: number, completionTokens: number): Usage {
  return { promptTokens, completionTokens, totalTokens: promptTokens + completionTokens, estimated: true };
}

/** The usage of an answered request: as the vendor reported it, else an estimate. */
export function usageOfAnswer(params: LLMCallParams, { usage, message }: LLMResponse): Usage {
  return usage ?? estimatedUsage(estimatePromptTokens(params), estimateTokens(message));
}

/**
 * Reports once how each call ended, and its usage, for a budget: what the provider does not report is estimated. A request without an answer counts
 * if a model was processing it: it had output, or was aborted, or timed out.
 */
export function meterCall(onEnd: (end: CallEnd, usage: Usage) => void): AroundCall {
  return (chunks, params, reported) => {
    const requests = new MeteredRequests(params);
    const metered = chunks.pipe(tap((chunk) => requests.add(chunk)));
    return watchCall((end) => onEnd(end, requests.usageOf(end)))(metered, params, reported);
  };
}

const aborted: ReadonlySet<string> = new Set(['CANCELED', 'PROVIDER_TIMEOUT']);

/** The requests of one call, by its chunks: policies announce each that follows a failed one. Memory: two numbers. */
class MeteredRequests {
  readonly #params: LLMCallParams;
  #unanswered: Usage | undefined;
  #isOpen = true;
  /** Tokens of its output, times four. */
  #quarters = 0;

  constructor(params: LLMCallParams) {
    this.#params = params;
  }

  add(chunk: LLMChunk): void {
    if (chunk.type === 'text' || chunk.type === 'reasoning') this.#quarters += quartersOf(chunk.text);
    else if (chunk.type === 'tool-call') this.#quarters += quartersOf(chunk.arguments ?? '');
    else if (chunk.type !== 'attempt') return;
    else if (chunk.state === 'void') this.#end(chunk.reason);
    else this.#isOpen = true;
  }

  usageOf(end: CallEnd): Usage {
    if (end.type === 'done') {
      const usage = usageOfAnswer(this.#params, end.response);
      return this.#unanswered && !usage.discarded ? { ...usage, discarded: this.#unanswered } : usage;
    }
    this.#end(end.type === 'left' ? 'CANCELED' : codeOf(end.error));
    const estimate = this.#unanswered ?? noUsage;
    if (!end.usage) return estimate;
    // Some vendors report the prompt first, and the output only with the last event.
    const unreported = estimate.completionTokens - end.usage.completionTokens;
    return unreported > 0 ? addUsage(end.usage, estimatedUsage(0, unreported)) : end.usage;
  }

  /** The open request ended without an answer, by an error with this code. */
  #end(code: string | undefined): void {
    if (this.#isOpen && (this.#quarters > 0 || aborted.has(code ?? ''))) {
      const usage = estimatedUsage(estimatePromptTokens(this.#params), Math.ceil(this.#quarters / 4));
      this.#unanswered = addUsage(this.#unanswered ?? noUsage, usage);
    }
    this.#isOpen = false;
    this.#quarters = 0;
  }
}

/** An error with an HTTP status comes from the server: it aborted nothing. */
function codeOf(error: unknown): string | undefined {
  return AgentLoopError.isInstance(error) && error.status === undefined ? error.code : undefined;
}

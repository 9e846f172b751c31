import { type Context, createContextKey, ROOT_CONTEXT } from '@opentelemetry/api';
import type { AgentLoopError, ErrorCode } from '../../core/errors.ts';
import { estimateTokens } from '../../extensions/context/count-tokens.ts';
import type { LLMCallParams, LLMResponse, Usage } from '../interfaces.ts';
import { estimatePromptTokens } from './token-estimate.ts';

const discardedKey = createContextKey('millrace: usage of the attempts of a model call');

/** Failures of requests that the model never began to work on. */
const unworked: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'INVALID_CONFIG',
  'INVALID_INPUT',
  'PROVIDER_UNREACHABLE',
  'PROVIDER_AUTH',
  'PROVIDER_NOT_FOUND',
  'PROVIDER_BAD_REQUEST',
  'PROVIDER_RATE_LIMIT',
]);

/** Whether an error says that the model never began to work on a request. */
export function isRefused(error: AgentLoopError | undefined): boolean {
  return error !== undefined && (error.status !== undefined || unworked.has(error.code));
}

/**
 * What the requests of one model call took that gave no answer. Travels in the call's trace context, so that the request, which knows
 * what it took, needs not know of the policies around it.
 */
export class DiscardedUsage {
  #promptTokens = 0;
  #completionTokens = 0;

  /** That of the call, where the call has one. */
  static of({ traceContext }: LLMCallParams): DiscardedUsage | undefined {
    const found = traceContext?.getValue(discardedKey);
    return found instanceof DiscardedUsage ? found : undefined;
  }

  /** A context that carries this. */
  in(parent: Context = ROOT_CONTEXT): Context {
    return parent.setValue(discardedKey, this);
  }

  /** Counts a request that ended without an answer, by `error` or because it was left, after this much output. */
  add(params: LLMCallParams, output: string, error?: AgentLoopError): void {
    if (isRefused(error) && output === '') return;
    this.#promptTokens += estimatePromptTokens(params);
    this.#completionTokens += estimateTokens(output);
  }

  /** The answer of the call with this in its usage, which is a guess itself where the vendor did not tell. */
  addTo(response: LLMResponse, params: LLMCallParams): LLMResponse {
    const discarded = guessed(this.#promptTokens, this.#completionTokens);
    if (discarded.totalTokens === 0) return response;
    const answered = response.usage ?? guessed(estimatePromptTokens(params), estimateTokens(response.message));
    return { ...response, usage: { ...answered, discarded } };
  }
}

function guessed(promptTokens: number, completionTokens: number): Usage {
  return { promptTokens, completionTokens, totalTokens: promptTokens + completionTokens, estimated: true };
}

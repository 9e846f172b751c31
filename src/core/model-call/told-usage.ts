import type { LLMCallParams, LLMProvider, LLMResponse } from '../contracts/provider.ts';
import { addUsage, noUsage, type Usage } from '../contracts/usage.ts';
import { withDiscarded } from './estimate-usage.ts';

/** What a provider tells of the requests of one call that gave no answer, added up. */
export class ToldUsage {
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
const parts = ['cachedTokens', 'reasoningTokens', 'cost'] as const;

/** Whether a value that somebody outside gave can be counted. */
export function isUsage(usage: Usage | undefined | null): boolean {
  if (typeof usage !== 'object' || usage === null) return false;
  return counts.every((name) => isCount(usage[name])) && parts.every((name) => isCount(usage[name] ?? 0));
}

function isCount(value: number): boolean {
  return Number.isFinite(value) && value >= 0;
}

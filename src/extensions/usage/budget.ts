import {
  AgentLoopError,
  addUsage,
  type Extension,
  type LLMCallParams,
  type LLMProvider,
  type Usage,
} from '../../core/contracts/index.ts';
import { estimatedUsage, estimatePromptTokens } from '../../core/model-call/index.ts';
import { assertOptions, wholeNumber, wrongOption } from '../../core/options/index.ts';
import { callCost, dollars, type PriceList } from '../../providers/models/model-info.ts';
import { aPriceList, aReaction, someDollars } from '../limits/broken-limit.ts';
import { type AroundCall, aroundCalls, pricedModel, watchCall } from './around-calls.ts';

/** Options of `budget`: what all turns that share it may use together. */
export interface BudgetOptions {
  /** Prompts and answers of all calls. */
  readonly maxTokens?: number | undefined;
  /** US dollars. */
  readonly maxCost?: number | undefined;
  /** What models cost, for `maxCost`. Such as a `ModelRegistry`. */
  readonly prices?: PriceList | undefined;
  /** What is set aside for an answer where a call has no `maxTokens` of its own. Default 1,000. */
  readonly answerTokens?: number | undefined;
}

/** Options of `budget.extension()`. */
export interface BudgetExtensionOptions {
  /** `'fail'` (default): a turn whose next call does not fit fails with `LIMIT`. `'stop'`: it completes with the text that there is. */
  readonly onLimit?: 'fail' | 'stop' | undefined;
}

interface Amount {
  readonly tokens: number;
  readonly cost: number;
}

/** What is left for all turns that share it. */
export class Budget {
  readonly #options: BudgetOptions;
  #used: Usage = { promptTokens: 0, completionTokens: 0, totalTokens: 0 };
  #cost = 0;
  #reserved: Amount = { tokens: 0, cost: 0 };

  constructor(options: BudgetOptions) {
    this.#options = options;
  }

  /** What all calls took by now, those that failed or were left with an estimate. */
  get used(): Usage {
    return this.#options.maxCost === undefined ? this.#used : { ...this.#used, cost: this.#cost };
  }

  /** What neither was taken nor is set aside; `Infinity` where there is no limit. */
  get left(): { readonly tokens: number; readonly cost: number } {
    const { maxTokens = Number.POSITIVE_INFINITY, maxCost = Number.POSITIVE_INFINITY } = this.#options;
    const { tokens, cost } = this.#reserved;
    return { tokens: maxTokens - this.#used.totalTokens - tokens, cost: dollars(maxCost - this.#cost - cost) };
  }

  /** Makes the turns of a loop draw on it; a sub-agent's loop gets one of its own of the same budget. */
  extension(options: BudgetExtensionOptions = {}): Extension {
    assertOptions('budget.extension', options, { onLimit: aReaction });
    return {
      name: 'budget',
      ...(options.onLimit === 'stop' && {
        prepareIteration: ({ messages, systemPrompt, tools, settings }, { provider }) => {
          const instructions = systemPrompt === undefined ? [] : [{ role: 'system' as const, content: systemPrompt }];
          const call = { ...settings, tools, messages: [...instructions, ...messages] };
          const broken = this.#broken(this.#estimate(call, provider));
          return broken && { finish: { reason: broken.reason } };
        },
      }),
      beforeLLMCall: (_, { provider }) => ({ provider: this.provider(provider) }),
    };
  }

  /** A provider whose calls draw on it as those of a turn do, for calls that a tool makes: the sampling of an MCP server, for one. */
  provider(provider: LLMProvider): LLMProvider {
    return aroundCalls(provider, this.#around(provider));
  }

  /** Sets aside what a call may take when it is made, and counts what it took when it ends. */
  #around(provider: LLMProvider): AroundCall {
    return (chunks, params, reported) => {
      const estimate = this.#estimate(params, provider);
      const broken = this.#broken(estimate);
      if (broken) throw broken;
      this.#reserve(estimate, 1);
      const model = params.model ?? provider.info?.model;
      const settled = watchCall((end) => {
        this.#reserve(estimate, -1);
        const answered = end.type === 'done' ? end.response.model : undefined;
        this.#spend(end.usage, pricedModel({ answered, asked: model }, this.#options.prices));
      });
      return settled(chunks, params, reported);
    };
  }

  #estimate(params: LLMCallParams, { info }: LLMProvider): Amount {
    const usage = estimatedUsage(estimatePromptTokens(params), params.maxTokens ?? this.#options.answerTokens ?? 1_000);
    return { tokens: usage.totalTokens, cost: this.#costOf(usage, params.model ?? info?.model) };
  }

  #broken({ tokens, cost }: Amount): AgentLoopError | undefined {
    const { left } = this;
    if (tokens > left.tokens)
      return exhausted('max_tokens', `${left.tokens} tokens left, and the next call may take ${tokens}`);
    if (cost > left.cost) return exhausted('max_cost', `$${left.cost} left, and the next call may cost $${cost}`);
    return undefined;
  }

  #reserve({ tokens, cost }: Amount, times: 1 | -1): void {
    const before = this.#reserved;
    this.#reserved = { tokens: before.tokens + times * tokens, cost: dollars(before.cost + times * cost) };
  }

  #spend(usage: Usage, model: string | undefined): void {
    this.#used = addUsage(this.#used, usage);
    this.#cost = dollars(this.#cost + this.#costOf(usage, model));
  }

  #costOf(usage: Usage, model: string | undefined): number {
    const { maxCost, prices } = this.#options;
    if (maxCost === undefined) return 0;
    const cost = callCost(usage, { model, prices });
    if (cost !== undefined) return cost;
    const what = model === undefined ? 'its model' : `"${model}"`;
    throw new AgentLoopError(
      'INVALID_CONFIG',
      `The budget has a maxCost, and the price of ${what} is not known; give it the prices, or leave maxCost out.`,
    );
  }
}

/**
 * A budget that several loops, agents and sub-agents of a process share: an extension of each draws on it. Before a call is made, the
 * tokens of its prompt, estimated, and of its answer are set aside; a call that does not fit is not made. What it took counts when it
 * ends. It knows what this process spends, not what a turn that is resumed here took before. Errors: `INVALID_CONFIG`, naming the option.
 */
export function budget(options: BudgetOptions): Budget {
  assertOptions('budget', options, {
    maxTokens: wholeNumber(1),
    maxCost: someDollars,
    prices: aPriceList,
    answerTokens: wholeNumber(1),
  });
  const { maxTokens, maxCost, prices } = options;
  if (maxTokens === undefined && maxCost === undefined) throw wrongOption('budget', 'give maxTokens, maxCost or both');
  if (maxCost !== undefined && !prices)
    throw wrongOption('budget', 'maxCost needs prices: what a call may cost is worked out before it');
  return new Budget(options);
}

function exhausted(reason: 'max_tokens' | 'max_cost', what: string): AgentLoopError {
  return new AgentLoopError('LIMIT', `The budget has ${what}; raise it, or give less to do.`, { reason });
}

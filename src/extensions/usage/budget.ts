import {
  AgentLoopError,
  addUsage,
  type Extension,
  type LLMCallParams,
  type LLMProvider,
  type Usage,
} from '../../core/contracts/index.ts';
import { estimatePromptTokens } from '../../core/model-call/index.ts';
import { assertOptions, wholeNumber, wrongOption } from '../../options/option-rules.ts';
import { callCost, dollars, type PriceList } from '../../providers/models/model-info.ts';
import { aPriceList, aReaction, someDollars } from '../limits/broken-limit.ts';
import { type AroundCall, aroundCalls, pricedModel } from './around-calls.ts';
import { estimatedUsage, meterCall } from './estimated-usage.ts';

/** Options of `budget`: the shared limits. */
export interface BudgetOptions {
  /** Prompts and answers of all calls. */
  readonly maxTokens?: number | undefined;
  /** US dollars. */
  readonly maxCost?: number | undefined;
  /** Prices of models, for `maxCost`. Such as a `ModelRegistry`. */
  readonly prices?: PriceList | undefined;
  /** Tokens reserved for the answer of a call without `maxTokens`. Default 1,000. */
  readonly answerTokens?: number | undefined;
}

/** Options of `budget.extension()`. */
export interface BudgetExtensionOptions {
  /** `'fail'` (default): a turn whose next call exceeds the budget fails with `LIMIT`. `'stop'`: it completes with the text so far. */
  readonly onLimit?: 'fail' | 'stop' | undefined;
}

interface Amount {
  readonly tokens: number;
  readonly cost: number;
}

/** A budget that several turns share. */
export class Budget {
  readonly #options: BudgetOptions;
  #used: Usage = { promptTokens: 0, completionTokens: 0, totalTokens: 0 };
  #cost = 0;
  #reserved: Amount = { tokens: 0, cost: 0 };

  constructor(options: BudgetOptions) {
    this.#options = options;
  }

  /** The usage of all calls so far: as reported, else an estimate, also of aborted calls and of those that failed after some output. */
  get used(): Usage {
    return this.#options.maxCost === undefined ? this.#used : { ...this.#used, cost: this.#cost };
  }

  /** The budget that is neither used nor reserved; `Infinity` without a limit. */
  get left(): { readonly tokens: number; readonly cost: number } {
    const { maxTokens = Number.POSITIVE_INFINITY, maxCost = Number.POSITIVE_INFINITY } = this.#options;
    const { tokens, cost } = this.#reserved;
    return { tokens: maxTokens - this.#used.totalTokens - tokens, cost: dollars(maxCost - this.#cost - cost) };
  }

  /** Creates the extension that charges a loop's turns to this budget; each loop needs its own extension. */
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

  /** Wraps a provider so that its calls are charged as those of a turn, for calls that a tool makes, such as the sampling of an MCP server. */
  provider(provider: LLMProvider): LLMProvider {
    return aroundCalls(provider, this.#around(provider));
  }

  /** Reserves the estimated usage of a call at its start, and charges its actual usage at its end. */
  #around(provider: LLMProvider): AroundCall {
    return (chunks, params, reported) => {
      const estimate = this.#estimate(params, provider);
      const broken = this.#broken(estimate);
      if (broken) throw broken;
      this.#reserve(estimate, 1);
      const model = params.model ?? provider.info?.model;
      const settled = meterCall((end, usage) => {
        this.#reserve(estimate, -1);
        const answered = end.type === 'done' ? end.response.model : undefined;
        this.#spend(usage, pricedModel({ answered, asked: model }, this.#options.prices));
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
      `The budget has a maxCost, and the price of ${what} is not known; set prices, or omit maxCost.`,
    );
  }
}

/**
 * A budget that several loops, agents and sub-agents of a process share, each with its own extension. Before a call is made, the
 * estimated tokens of its prompt and of its answer are reserved; a call that exceeds the budget is not made. Its actual usage is charged when it
 * ends. Counts the usage of this process, not what a resumed turn used before. Errors: `INVALID_CONFIG`, naming the option.
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
  return new AgentLoopError('LIMIT', `The budget has ${what}; raise it, or reduce the work.`, { reason });
}

/** Tokens of one model call, or a sum over several. */
export interface Usage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly totalTokens: number;
  /** The part of `promptTokens` that came from a prompt cache. */
  readonly cachedTokens?: number;
  /** The part of `completionTokens` that was reasoning. */
  readonly reasoningTokens?: number;
  /** In US dollars. */
  readonly cost?: number;
  /** True if the vendor reported no usage and the numbers are an estimate. */
  readonly estimated?: boolean;
  /**
   * An estimate of the usage of requests of the same call without an answer: retried, hedged or aborted ones. Not part of the other numbers,
   * which are those of the answer; sums over several calls include both.
   */
  readonly discarded?: Omit<Usage, 'discarded'>;
}

/** The usage of the model calls that one agent made with one model. */
export interface AgentUsage {
  readonly agentId: string;
  /** Absent where the provider does not name it. */
  readonly model?: string;
  readonly usage: Usage;
}

export const noUsage: Usage = { promptTokens: 0, completionTokens: 0, totalTokens: 0 };

/** The sum of two usages, with what they discarded; optional members are kept where either has them. */
export function addUsage(a: Usage, b: Usage): Usage {
  if (a.discarded || b.discarded) return addUsage(wholeUsage(a), wholeUsage(b));
  return {
    promptTokens: a.promptTokens + b.promptTokens,
    completionTokens: a.completionTokens + b.completionTokens,
    totalTokens: a.totalTokens + b.totalTokens,
    ...optionalSum('cachedTokens', a, b),
    ...optionalSum('reasoningTokens', a, b),
    ...optionalSum('cost', a, b),
    ...(a.estimated || b.estimated ? { estimated: true } : {}),
  };
}

function wholeUsage({ discarded, ...answered }: Usage): Usage {
  return discarded ? addUsage(answered, discarded) : answered;
}

function optionalSum(name: 'cachedTokens' | 'reasoningTokens' | 'cost', a: Usage, b: Usage): Partial<Usage> {
  return a[name] === undefined && b[name] === undefined ? {} : { [name]: (a[name] ?? 0) + (b[name] ?? 0) };
}

/** Lists of usage by agent and model, as one list: one entry for each agent and model. */
export function addUsed(to: readonly AgentUsage[], added: readonly AgentUsage[]): readonly AgentUsage[] {
  if (added.length === 0) return to;
  const sum = to.slice();
  for (const each of added) {
    const index = sum.findIndex((known) => isSame(known, each));
    const known = sum[index];
    if (known) sum[index] = { ...known, usage: addUsage(known.usage, each.usage) };
    else sum.push({ ...each, usage: addUsage(noUsage, each.usage) });
  }
  return sum;
}

/** What is left of usage by agent and model without a part that is recorded already. */
export function restOf(all: readonly AgentUsage[], part: readonly AgentUsage[]): readonly AgentUsage[] {
  if (part.length === 0) return all;
  return all.flatMap((each) => {
    const known = part.find((recorded) => isSame(recorded, each));
    const usage = known ? lessUsage(each.usage, known.usage) : each.usage;
    return usage.totalTokens > 0 ? [{ ...each, usage }] : [];
  });
}

export function usageOf(used: readonly AgentUsage[]): Usage {
  let sum = used[0]?.usage ?? noUsage;
  for (let index = 1; index < used.length; index++) sum = addUsage(sum, used[index]?.usage ?? noUsage);
  return sum;
}

/** A usage without a part of it; nothing of it falls below 0. */
export function lessUsage(usage: Usage, part: Usage): Usage {
  const { discarded: _, ...whole } = usage.discarded ? addUsage(usage, noUsage) : usage;
  const { discarded: __, ...known } = part.discarded ? addUsage(part, noUsage) : part;
  const less = (
    name: 'promptTokens' | 'completionTokens' | 'totalTokens' | 'cachedTokens' | 'reasoningTokens' | 'cost',
  ) => Math.max(0, (whole[name] ?? 0) - (known[name] ?? 0));
  return {
    ...whole,
    promptTokens: less('promptTokens'),
    completionTokens: less('completionTokens'),
    totalTokens: less('totalTokens'),
    ...(whole.cachedTokens === undefined ? {} : { cachedTokens: less('cachedTokens') }),
    ...(whole.reasoningTokens === undefined ? {} : { reasoningTokens: less('reasoningTokens') }),
    ...(whole.cost === undefined ? {} : { cost: less('cost') }),
  };
}

function isSame(one: AgentUsage, other: AgentUsage): boolean {
  return one.agentId === other.agentId && one.model === other.model;
}

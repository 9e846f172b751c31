import type { Usage } from '../providers/interfaces.ts';

/** The sum of two usages, with what they discarded; optional members are kept where either has them. */
export function addUsage(a: Usage, b: Usage): Usage {
  if (a.discarded || b.discarded) return addUsage(wholeUsage(a), wholeUsage(b));
  const sum = {
    promptTokens: a.promptTokens + b.promptTokens,
    completionTokens: a.completionTokens + b.completionTokens,
    totalTokens: a.totalTokens + b.totalTokens,
  };
  return {
    ...sum,
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

import type { LLMProvider } from '../../core/contracts/index.ts';
import { assertOrder, type PolicyName } from './policy-order.ts';

type Named = LLMProvider | ((provider: LLMProvider) => LLMProvider);

/** The policies, the outermost first, that a policy of ours stands for, or that a provider has around it. */
const names = new WeakMap<object, readonly PolicyName[]>();

/** None for policies and providers that are not ours. */
export function policyNames(of: Named): readonly PolicyName[] {
  return names.get(of) ?? [];
}

/** Marks a policy, or a provider behind policies, as made of these. Errors: `INVALID_CONFIG` for a wrong order. */
export function withPolicyNames<T extends Named>(of: T, policies: readonly PolicyName[]): T {
  assertOrder(policies);
  names.set(of, policies);
  return of;
}

import { AgentLoopError, shownValue } from '../../core/contracts/index.ts';
import { policyNames, withPolicyNames } from './policy-names.ts';
import type { ProviderPolicy } from './provider-policy.ts';

/**
 * One policy of several, the outermost first: `composePolicies(fallback({ to }), retry(), timeout({ firstChunkMs: 10_000 }))(provider)`
 * falls back once all tries have failed, each of them under its own limit. None at all gives the provider as it is. Policies of the
 * caller's own may stand anywhere. Errors: `INVALID_CONFIG` for what is no policy, and for an order that cannot be meant.
 */
export function composePolicies(...policies: readonly ProviderPolicy[]): ProviderPolicy {
  for (const [index, policy] of policies.entries()) {
    if (typeof policy === 'function') continue;
    throw new AgentLoopError(
      'INVALID_CONFIG',
      `composePolicies: argument ${index + 1} is ${shownValue(policy)}; give policies such as retry(), and the provider to what comes out.`,
    );
  }
  const composed: ProviderPolicy = (provider) => policies.reduceRight((inner, policy) => policy(inner), provider);
  return withPolicyNames(composed, policies.flatMap(policyNames));
}

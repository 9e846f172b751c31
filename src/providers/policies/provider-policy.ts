import { Observable } from 'rxjs';
import { AgentLoopError, type LLMChunk, type LLMProvider, shownValue } from '../../core/contracts/index.ts';
import { CallParams } from '../../core/model-call/index.ts';
import { attemptStream, LeavingSubscriber, responseOf, type StreamCall } from './attempt-stream.ts';
import { assertOrder, type PolicyName, policyNames, withPolicyNames } from './policy-order.ts';

/** A provider with something around each of its calls. */
export type ProviderPolicy = (provider: LLMProvider) => LLMProvider;

/**
 * A policy by what it does with the calls of a provider. `around` is asked once for each provider that the policy is put around; what
 * it keeps outside of the calls it gives, all calls of that provider share. What comes out has `stream` and `call`, both over the same
 * calls; it shows the capabilities and the information of the provider within.
 */
export function definePolicy(
  name: PolicyName,
  around: (stream: StreamCall, provider: LLMProvider) => StreamCall,
): ProviderPolicy {
  const policy = (provider: LLMProvider): LLMProvider => {
    assertProvider(name, provider);
    const policies = [name, ...policyNames(provider)];
    assertOrder(policies);
    return withPolicyNames(streamingProvider(provider, around(attemptStream(provider), provider)), policies);
  };
  return withPolicyNames(policy, [name]);
}

/** Errors with `INVALID_CONFIG` for what is no provider. */
export function assertProvider(policy: string, provider: LLMProvider): void {
  if (typeof provider === 'object' && provider !== null && typeof provider.call === 'function') return;
  throw new AgentLoopError(
    'INVALID_CONFIG',
    `${policy} goes around an LLMProvider, an object with call and perhaps stream, not ${shownValue(provider)}.`,
  );
}

function streamingProvider(provider: LLMProvider, inner: StreamCall): LLMProvider {
  const { info, capabilities } = provider;
  const stream = wholeCall(inner);
  // What streams here is at least the attempts, whatever the provider within can do.
  const { streaming: _, ...abilities } = capabilities ?? {};
  return {
    ...(info && { info }),
    capabilities: abilities,
    tracesAttempts: true,
    prepare: async () => provider.prepare?.(),
    stream,
    call: (params) => responseOf(stream(params)),
  };
}

/**
 * What stands around a call of a policy: an aborted signal ends it at once with `CANCELED`, whatever its policies wait for, and its waits are
 * no silence of the model. An end is emitted after the teardown of everything inside: a request that is left has reported its usage by then.
 */
function wholeCall(inner: StreamCall): StreamCall {
  return (params) =>
    new Observable((to) => {
      to.add(params.silence?.suspend());
      const scope = CallParams.scopeOf(params);
      if (scope?.aborted) return to.error(cancellation(scope.reason));
      const chunks = new LeavingSubscriber<LLMChunk>({
        next: (chunk) => to.next(chunk),
        error: (error) => to.error(error),
        complete: () => to.complete(),
      });
      to.add(chunks);
      if (scope) chunks.add(scope.onAbort(() => chunks.error(cancellation(scope.reason))));
      inner(params).subscribe(chunks);
    });
}

function cancellation(reason: unknown): AgentLoopError {
  if (AgentLoopError.isInstance(reason)) return reason;
  return new AgentLoopError('CANCELED', 'The model call was cancelled.', { cause: reason });
}

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

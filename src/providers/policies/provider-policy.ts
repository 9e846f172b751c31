import { catchError, filter, lastValueFrom, map, Observable, takeUntil, throwError } from 'rxjs';
import {
  AgentLoopError,
  type LLMCallParams,
  type LLMChunk,
  type LLMProvider,
  type LLMResponse,
  shownValue,
} from '../../core/contracts/index.ts';
import { ModelSilence, ToldUsage, withDiscarded } from '../../core/model-call/index.ts';
import { AbortScope } from '../../core/streams/index.ts';
import { attemptStream, type StreamCall } from './attempt-stream.ts';
import { policyNames, withPolicyNames } from './policy-names.ts';
import { assertOrder, type PolicyName } from './policy-order.ts';

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

function streamingProvider({ info, capabilities }: LLMProvider, inner: StreamCall): LLMProvider {
  const stream = wholeCall(inner);
  // What streams here is at least the attempts, whatever the provider within can do.
  const { streaming: _, ...abilities } = capabilities ?? {};
  return {
    ...(info && { info }),
    capabilities: abilities,
    tracesAttempts: true,
    stream,
    call: (params) => lastValueFrom(stream(params).pipe(filter(isDone), map(responseOf))),
  };
}

/**
 * What stands around a call of a policy: an aborted signal ends it at once with `CANCELED`, whatever its policies wait for, its waits are
 * no silence of the model, and its answer includes the usage of earlier attempts. An end is emitted after the teardown of everything inside, so that a request
 * that is left has been counted by then.
 */
function wholeCall(inner: StreamCall): StreamCall {
  return (params) =>
    new Observable((subscriber) => {
      subscriber.add(ModelSilence.of(params)?.suspend());
      const told = new ToldUsage(params, {});
      const noteUsage: LLMCallParams['noteUsage'] = (usage) => {
        told.add(usage);
        params.noteUsage?.(usage);
      };
      const answer = (chunk: LLMChunk): LLMChunk =>
        chunk.type === 'done' && told.sum
          ? { type: 'done', response: withDiscarded(chunk.response, params, told.sum) }
          : chunk;
      const answers = inner({ ...params, noteUsage }).pipe(
        map(answer),
        takeUntil(aborted(params)),
        catchError((error: unknown) => throwError(() => error)),
      );
      return answers.subscribe(subscriber);
    });
}

/** Errors once the signal is aborted, also where it was before. The signal has one listener, however many policies a call passes. */
function aborted({ signal }: LLMCallParams): Observable<never> {
  return new Observable((subscriber) => {
    if (!signal) return undefined;
    const abort = (): void => subscriber.error(cancellation(signal.reason));
    if (signal.aborted) return abort();
    return AbortScope.of(signal).onAbort(abort);
  });
}

function cancellation(reason: unknown): AgentLoopError {
  if (AgentLoopError.isInstance(reason)) return reason;
  return new AgentLoopError('CANCELED', 'The model call was cancelled.', { cause: reason });
}

function isDone(chunk: LLMChunk): chunk is Extract<LLMChunk, { type: 'done' }> {
  return chunk.type === 'done';
}

function responseOf({ response }: { readonly response: LLMResponse }): LLMResponse {
  return response;
}

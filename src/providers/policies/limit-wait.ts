import type { Subscriber } from 'rxjs';
import { AgentLoopError, type Clock } from '../../core/contracts/index.ts';

/** Ends a call that waits too long in a policy. Gives how to say that it waits no longer. */
export function limitWait(
  policy: string,
  { ms, clock }: { readonly ms: number; readonly clock: Clock },
  subscriber: Subscriber<unknown>,
): () => void {
  const message = `The model call waited in ${policy} for ${ms} ms (maxWaitMs) and was not made.`;
  const late = () => subscriber.error(new AgentLoopError('PROVIDER_TIMEOUT', message, { retryable: true }));
  const cancel = clock.schedule(ms, late);
  subscriber.add(cancel);
  return cancel;
}

import { setTimeout as sleep } from 'node:timers/promises';
import { AgentLoopError, type TaskStateStore } from 'millrace';
import { isChildTask } from './life.ts';
import type { Outage } from './order.ts';
import { withMethods } from './with-methods.ts';

/** The same store, that this process does not reach for a while from one append on. */
export function outageStore(store: TaskStateStore, outage: Outage, onBegin: () => void): TaskStateStore {
  let appends = 0;
  let until: number | undefined;
  const note = (taskId: string) => {
    if (isChildTask(taskId) !== (outage.of === 'child') || ++appends !== outage.at) return;
    until = Date.now() + outage.ms;
    onBegin();
  };
  const away =
    <A extends unknown[], T>(method: (...args: A) => T | Promise<T>, idOf: (subject: A[0]) => string) =>
    async (...args: A): Promise<T> => {
      const part = isChildTask(idOf(args[0])) ? 'children' : 'root';
      const reaches = outage.away !== 'all' && outage.away !== part;
      if (!reaches && until !== undefined && Date.now() < until) {
        if (outage.kind === 'refused')
          throw new AgentLoopError('UNAVAILABLE', 'The store is away.', { retryable: true });
        // What waits arrives when it is over, in the order in which it was sent.
        await sleep(until - Date.now());
      }
      return method.apply(store, args);
    };
  const byId = (taskId: string) => taskId;
  const byLease = ({ taskId }: { readonly taskId: string }) => taskId;
  const append = away<Parameters<TaskStateStore['append']>, void>(store.append, byLease);
  return withMethods(store, {
    create: away(store.create, byId),
    acquire: away(store.acquire, byId),
    append: (...args) => {
      note(args[0].taskId);
      return append(...args);
    },
    renew: away(store.renew, byLease),
    release: away(store.release, byLease),
    read: away(store.read, byId),
    post: away(store.post, byId),
  });
}

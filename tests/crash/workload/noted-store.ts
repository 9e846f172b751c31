import type { TaskStateStore } from 'millrace';
import { isTerminal } from 'millrace/internals';
import type { Lease } from 'millrace/types';
import { withMethods } from './with-methods.ts';
import type { World } from './world.ts';

/** The same store; the leases that it grants, those that are given back, and the ends of turns are noted in the world. */
export function notedStore(store: TaskStateStore, world: World, pid: number): TaskStateStore {
  const noted: Pick<TaskStateStore, 'acquire' | 'append' | 'release'> = {
    async acquire(taskId, owner, leaseMs, under) {
      const lease = await store.acquire(taskId, owner, leaseMs, under);
      const { epoch } = lease;
      world.note({ type: 'lease', task: taskId, epoch, ...(under && { under }), pid, at: Date.now() });
      return lease;
    },
    async append(lease, records, options) {
      const { taskId: task, epoch } = lease;
      const ends = records.some(isTerminal);
      const types = records.map(({ type }) => type);
      if (types.includes('agent.changed')) world.note({ type: 'changed', task, types, pid });
      if (ends) world.note({ type: 'ending', task, epoch, pid });
      await store.append(lease, records, options);
      if (ends) world.note({ type: 'ended', task, epoch, pid });
    },
    async release(lease: Lease) {
      world.note({ type: 'released', task: lease.taskId, epoch: lease.epoch, pid, at: Date.now() });
      await store.release(lease);
    },
  };
  return withMethods(store, noted);
}

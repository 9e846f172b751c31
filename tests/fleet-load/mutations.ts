import type { Patch } from '../crash/parent/child-bundle.ts';

const sweep = 'src/fleet/sweep.ts';

/** Bugs that are planted in the fleet or the engine: the load has to find them. None but those that it was seen to find. */
export const mutations: Readonly<Record<string, readonly Patch[]>> = {
  /** The sweep takes turns from owners that are well. */
  'sweep-steals': [
    {
      file: sweep,
      from: 'list({ runnable: true, agentId, dueBy: now, limit })',
      to: 'list({ agentId, limit })',
    },
    { file: sweep, from: '!task.held && isRunnable', to: 'isRunnable' },
    { file: sweep, from: 'if (Date.parse(updatedAt) + graceMs > now) return false;', to: '' },
    {
      file: sweep,
      from: 'await this.#options.queue.enqueue(task, false);',
      to: 'await this.#options.queue.store.breakLease(task.taskId); await this.#options.queue.enqueue(task, false);',
    },
  ],
};

import { mutations as ofCrash } from '../crash/mutations.ts';
import type { Patch } from '../crash/parent/child-bundle.ts';

/** A bug that is planted in the fleet or the engine: the load has to find it. */
export interface Mutation {
  readonly patches: readonly Patch[];
  /** The promise that the load sees broken. */
  readonly check: string;
}

const job = 'src/fleet/run-job.ts';
const queue = 'src/fleet/turn-queue.ts';
const sweep = 'src/fleet/sweep.ts';
const turns = 'src/agent/runnable-turns.ts';

export const mutations: Readonly<Record<string, Mutation>> = {
  /** Who has BullMQ's lock of a job takes its turn, whoever has the lease. */
  'lock-decides': {
    check: 'a turn changes its owner only where that died',
    patches: [
      {
        file: job,
        from: `if (outcome.is === 'lost' && codeOf(outcome.error) === 'BUSY') {`,
        to: `if (outcome.is === 'lost' && codeOf(outcome.error) === 'BUSY') { await this.#options.queue.store.breakLease(taskId); outcome = await this.#resume(taskId); } else if (false) {`,
      },
    ],
  },
  /** BullMQ's count of stalls decides: the job of a killed worker fails. */
  'stalls-decide': {
    check: 'a takeover takes at most',
    patches: [
      { file: 'src/fleet/worker.ts', from: 'const maxStalledCount = 1_000;', to: 'const maxStalledCount = 0;' },
    ],
  },
  /** A turn that is resumed runs its finished calls again: the journal refuses their second intent, and the turn fails. */
  'finished-again': {
    check: 'the turn ends as its script says',
    patches: ofCrash.find(({ name }) => name === 'finished tools run again')?.patches ?? [],
  },
  /** A wake-up is dropped while the turn has its job, which a slow worker keeps for a while, and nobody looks again after it. */
  'lost-wake-up': {
    check: 'an answered turn continues within',
    patches: [
      { file: queue, from: 'keepLastIfActive: true, ', to: '' },
      {
        file: job,
        from: `if (summary && !summary.held && (summary.state === 'working' || summary.state === 'submitted'))`,
        to: 'if (!isComplete) await new Promise((wake) => setTimeout(wake, 100)); if (false)',
      },
    ],
  },
  /** Each turn has two jobs. */
  'double-dispatch': {
    check: 'a turn is dispatched once',
    patches: [
      {
        file: queue,
        from: 'const data: TurnJob = { taskId };',
        to: 'const data: TurnJob = { taskId }; await queue.add(turnJob, data, { ...this.#kept, ...this.#tries, ...(priority > 0 && { priority }) });',
      },
    ],
  },
  /** The sweep takes turns from owners that are well. */
  'sweep-steals': {
    check: 'a turn changes its owner only where that died',
    patches: [
      { file: turns, from: 'list({ ...query, runnable: true, limit })', to: 'list({ agentId: query.agentId, limit })' },
      { file: turns, from: '!held && isRunnable', to: 'isRunnable' },
      {
        file: sweep,
        from: 'if (Date.parse(updatedAt) + graceMs > now || isMarked(queue.store, taskId)) return false;',
        to: '',
      },
      {
        file: sweep,
        from: 'await this.#options.queue.enqueue(task, false);',
        to: 'await this.#options.queue.store.breakLease(task.taskId); await this.#options.queue.enqueue(task, false);',
      },
    ],
  },
};

import { Agent } from '../agent/agent.ts';
import {
  AgentLoopError,
  type Clock,
  invalidConfig,
  type MessageStore,
  shownValue,
  type TaskStateStore,
} from '../core/contracts/index.ts';
import { anObject, checkNames, checkOption, checkOptions, checkStore, integerFrom } from '../options/option-rules.ts';
import type { QueueConnection } from './connection.ts';

/** Limits on the turns of one agent, over all workers. */
export interface TurnLimits {
  /** The maximum number of concurrent turns. Default: no limit. */
  readonly concurrency?: number | undefined;
  /** The maximum number of turns that start or continue in each window of `perMs` milliseconds. Counts turns, not model calls. Default: no limit. */
  readonly rate?: { readonly turns: number; readonly perMs: number } | undefined;
}

/** Options of `turnQueue`: the servers of jobs and journals, and the limits of the queue. */
export interface TurnQueueOptions {
  /** The Redis of the jobs; `{ postgres: url }` keeps them in PostgreSQL, experimentally: without `maxOutstanding` across processes, tenants, and workers in `health`. */
  readonly connection: QueueConnection;
  /** The store of the journals, the same for all producers and workers. */
  readonly store: TaskStateStore;
  /** Default `millrace`. Queues with different names are independent. */
  readonly name?: string | undefined;
  /** The maximum number of waiting, running or delayed jobs per agent; beyond it `start` rejects with `FULL`. Default: no limit. */
  readonly maxOutstanding?: number | undefined;
  /** The limits of each agent, over all workers. Workers write them to the queue when they start, and with each sweep. Default: none. */
  readonly limits?: TurnLimits | undefined;
  /** Orders the turns of a context that the caller names. The same store as that of the agents. Default: `messages` of the store. */
  readonly messageStore?: MessageStore | undefined;
  /** Replaced in tests. Default: the system clock. */
  readonly clock?: Clock | undefined;
}

/** Errors: `INVALID_CONFIG`, naming the option and the fix. */
export function checkQueueOptions(options: TurnQueueOptions): void {
  checkOption('the options of turnQueue', options, { ...anObject, cure: 'write turnQueue({ connection, store })' });
  const known = ['connection', 'store', 'name', 'maxOutstanding', 'limits', 'messageStore', 'clock'];
  checkNames(options, known, 'turnQueue');
  checkStore('store', options.store);
  const { name, limits } = options;
  if (name !== undefined && !/^[\w.-]+$/.test(name))
    throw invalidConfig(`name is ${shownValue(name)}`, 'use letters, digits, _ . and -');
  const rate = { ...anObject, cure: 'write { turns: 10, perMs: 1_000 }' };
  checkOptions(options, {
    maxOutstanding: integerFrom(1),
    limits: { ...anObject, cure: 'write { concurrency: 100, rate: { turns: 10, perMs: 1_000 } }' },
  });
  checkOptions(limits ?? {}, { concurrency: integerFrom(1), rate }, 'limits');
  checkOptions(limits?.rate ?? {}, { turns: integerFrom(1), perMs: integerFrom(1) }, 'limits.rate');
}

/** Every `every` milliseconds, or by a cron pattern in a time zone. */
export type SchedulePlan =
  | { readonly every: number; readonly pattern?: undefined; readonly tz?: undefined }
  | { readonly pattern: string; readonly tz?: string | undefined; readonly every?: undefined };

const longestDelayMs = 10 * 365 * 86_400_000;
const cronPattern = /^(@\w+|\S+( +\S+){4,5})$/;
/** The ids of its turns append a colon and the time in milliseconds, and have at most 128 characters. */
const scheduleId = /^[\w.:-]{1,114}$/;

/** Errors: `INVALID_INPUT`. */
export function checkDelay(delayMs: number): void {
  if (Number.isSafeInteger(delayMs) && delayMs >= 0 && delayMs <= longestDelayMs) return;
  throw invalidInput(`delayMs must be an integer from 0 to ${longestDelayMs} (ten years), not ${shownValue(delayMs)}`);
}

/** Checks what BullMQ would find only when the schedule runs, or report as a failing queue. Errors: `INVALID_INPUT`. */
export function checkSchedule(id: string, { every, pattern, tz }: SchedulePlan): void {
  if (typeof id !== 'string' || !scheduleId.test(id))
    throw invalidInput(
      `the id of a schedule must have 1 to 114 characters out of A-Z a-z 0-9 _ . : -, not ${shownValue(id)}`,
    );
  if ((every === undefined) === (pattern === undefined))
    throw invalidInput('a schedule must have either { every } or { pattern }');
  if (every !== undefined && !(Number.isSafeInteger(every) && every >= 1))
    throw invalidInput(`every must be an integer ≥ 1 (milliseconds), not ${shownValue(every)}`);
  if (pattern !== undefined && !cronPattern.test(pattern))
    throw invalidInput(`pattern must be five or six fields of cron such as "0 6 * * *", not ${shownValue(pattern)}`);
  if (tz !== undefined && !isTimeZone(tz))
    throw invalidInput(`tz must be a time zone such as "Europe/Berlin", not ${shownValue(tz)}`);
}

function isTimeZone(tz: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: tz }) !== undefined;
  } catch {
    return false;
  }
}

/** The options of a worker in milliseconds, with all defaults. */
export interface WorkerTimes {
  readonly lockMs: number;
  readonly leaseMs: number;
  readonly stalledCheckMs: number;
  readonly drainMs: number;
  readonly sweepEveryMs: number;
}

export const defaultTimes: WorkerTimes = {
  lockMs: 30_000,
  leaseMs: 10_000,
  stalledCheckMs: 5_000,
  drainMs: 20_000,
  sweepEveryMs: 10_000,
};

const timeNames = Object.keys(defaultTimes);

interface CheckedWorker extends Partial<Record<keyof WorkerTimes, number | undefined>> {
  readonly agents: readonly Agent[];
  readonly concurrency?: number | undefined;
  readonly clock?: Clock | undefined;
}

/** Errors: `INVALID_CONFIG`. The job of a crashed worker must reach another one after the lease of its turn has expired. */
export function checkWorkerOptions(options: CheckedWorker): WorkerTimes {
  const { agents } = options;
  const agentsAreThere = Array.isArray(agents) && agents.length > 0 && agents.every((each) => each instanceof Agent);
  if (!agentsAreThere)
    throw invalidConfig(`agents is ${shownValue(agents)}`, 'give an array of at least one agent({ … })');
  const ids = agents.map(({ id }) => id);
  const twice = ids.find((id, index) => ids.indexOf(id) !== index);
  if (twice !== undefined) throw invalidConfig(`two agents have the id "${twice}"`, 'use a different id for each');
  for (const name of ['concurrency', ...timeNames]) checkOption(name, Reflect.get(options, name), integerFrom(1));
  const { lockMs, leaseMs, stalledCheckMs, drainMs, sweepEveryMs } = options;
  const given = Object.entries({ lockMs, leaseMs, stalledCheckMs, drainMs, sweepEveryMs });
  const times: WorkerTimes = { ...defaultTimes, ...Object.fromEntries(given.filter(([, ms]) => ms !== undefined)) };
  const shortest = times.leaseMs + times.stalledCheckMs;
  if (times.lockMs <= shortest)
    throw invalidConfig(
      `lockMs is ${times.lockMs}, not above leaseMs + stalledCheckMs (${times.leaseMs} + ${times.stalledCheckMs}): the jobs of a dead worker would come back while its turns are held`,
      `set lockMs above ${shortest}, or shorten the others`,
    );
  return times;
}

function invalidInput(message: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', `${message}.`);
}

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Random, seedOf } from '../../crash/random.ts';

/** What became of one request. */
export interface Outcome {
  /** What was sent, in short. */
  readonly sent: string;
  /** What the server did wrong. */
  readonly fault?: string;
}

/** A server that is attacked, and the way to it. */
export interface Target {
  readonly name: string;
  /** Sends one request that these random numbers determine, and waits for its answer. */
  send(random: Random): Promise<Outcome>;
  close(): Promise<void>;
}

export interface FuzzOptions {
  readonly open: () => Promise<Target>;
  readonly seed: number;
  readonly requests: number;
  readonly atOnce?: number;
  /** How long one request may take. Milliseconds; default the time limit of a test. */
  readonly deadlineMs?: number;
}

export interface FuzzReport {
  readonly name: string;
  readonly requests: number;
  /** Each with the seed and the number of its request. At most 20. */
  readonly faults: readonly string[];
  /** What the heap grew by, behind full collections, once the target was closed. Bytes. */
  readonly heapGrowth: number;
}

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

/** Sends requests until all are answered, or 20 were answered wrongly. */
export async function fuzz({
  open,
  seed,
  requests,
  atOnce = 16,
  deadlineMs = 300_000,
}: FuzzOptions): Promise<FuzzReport> {
  const faults: string[] = [];
  let index = -1;
  const lost = (error: unknown) => faults.push(`seed ${seed}, near request ${index}: unhandled ${shown(error)}`);
  process.on('unhandledRejection', lost);
  process.on('uncaughtException', lost);
  let target = await open();
  const { name } = target;
  let base = 0;
  let sent = 0;
  const worker = async (until: number) => {
    while (index + 1 < until && faults.length < 20) {
      const number = ++index;
      sent++;
      const outcome = await within(deadlineMs, target.send(new Random(seedOf(seed, name, number))));
      if (outcome.fault !== undefined)
        faults.push(`seed ${seed}, request ${number} of ${name}: ${outcome.fault}; sent ${outcome.sent}`);
    }
  };
  const workers = (until: number) => Promise.all(Array.from({ length: atOnce }, () => worker(until)));
  try {
    // What is loaded and compiled with the first requests is no leak: the base is what is left of a first target.
    await workers(Math.floor(requests / 4));
    await target.close();
    base = await heapUsed();
    target = await open();
    await workers(requests);
  } finally {
    await target.close();
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', lost);
    process.off('uncaughtException', lost);
  }
  return { name, requests: sent, faults: faults.slice(0, 20), heapGrowth: (await heapUsed()) - base };
}

async function heapUsed(): Promise<number> {
  for (let round = 0; round < 3; round++) {
    await new Promise((resolve) => setImmediate(resolve));
    collect();
  }
  return process.memoryUsage().heapUsed;
}

/** A request that is not answered in time is a fault. */
async function within(ms: number, work: Promise<Outcome>): Promise<Outcome> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Outcome>((resolve) => {
    timer = setTimeout(() => resolve({ sent: '', fault: `no answer within ${ms} ms` }), ms);
  });
  try {
    return await Promise.race([work.catch((error: unknown) => ({ sent: '', fault: shown(error) })), late]);
  } finally {
    clearTimeout(timer);
  }
}

export function shown(value: unknown): string {
  const text =
    value instanceof Error
      ? `${value.name}: ${value.message}${value.cause ? ` (${String(value.cause)})` : ''}`
      : JSON.stringify(value);
  return (text ?? String(value)).slice(0, 600);
}

import { parseArgs } from 'node:util';
import { mutations } from './mutations.ts';

export interface LoadOptions {
  readonly turns: number;
  readonly workers: number;
  /** Of the journals. Jobs are in Redis. */
  readonly store: 'redis' | 'postgres';
  readonly seed: number;
  /** On average; 0: no process is killed or stopped, and Redis runs through. */
  readonly killEveryMs: number;
  /** How many turns are observed. */
  readonly observed: number;
  readonly concurrency: number;
  readonly lockMs: number;
}

export interface CommandLine extends LoadOptions {
  /** The bugs that are planted one after the other, if any: each run has to find its own. */
  readonly planted: readonly string[];
}

export const usage = `Usage: npm run test:fleet -- [--turns N] [--workers N] [--store redis|postgres] [--seed N] [--kill-every MS]
         [--observed N] [--concurrency N] [--lock MS] [--mutations] [--mutation ${Object.keys(mutations).join('|')}]`;

/** What the command line says. Errors: a sentence that says what is wrong with it. */
export function optionsOf(args: readonly string[]): CommandLine {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      turns: text,
      workers: text,
      store: text,
      seed: text,
      'kill-every': text,
      observed: text,
      concurrency: text,
      lock: text,
      mutation: { type: 'string', multiple: true },
      mutations: { type: 'boolean' },
    },
  });
  const { store = 'redis', mutation = [] } = values;
  const stray = mutation.find((name) => !Object.hasOwn(mutations, name));
  if (stray !== undefined) throw new Error(`--mutation is ${stray}; known are ${Object.keys(mutations).join(', ')}.`);
  if (store !== 'redis' && store !== 'postgres') throw new Error(`--store is ${store}; known are redis, postgres.`);
  const turns = numberOf('turns', values.turns, 11) ?? 500;
  return {
    turns,
    workers: numberOf('workers', values.workers, 2) ?? 4,
    store,
    seed: numberOf('seed', values.seed, 0) ?? Math.floor(Math.random() * 2 ** 31),
    killEveryMs: numberOf('kill-every', values['kill-every'], 0) ?? 2_000,
    observed: Math.min(turns, numberOf('observed', values.observed, 0) ?? 100),
    concurrency: numberOf('concurrency', values.concurrency, 1) ?? 10,
    lockMs: numberOf('lock', values.lock, 1_000) ?? 4_000,
    planted: values.mutations ? Object.keys(mutations) : mutation,
  };
}

function numberOf(name: string, text: string | undefined, least: number): number | undefined {
  if (text === undefined) return undefined;
  const number = Number(text);
  if (Number.isSafeInteger(number) && number >= least) return number;
  throw new Error(`--${name} is ${text}; give an integer from ${least}.`);
}

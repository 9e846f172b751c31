import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import type { StoreKind } from './parent/campaign.ts';
import { type Mode, modeNames } from './parent/modes.ts';

export interface CrashOptions {
  readonly seed: number;
  readonly modes: readonly Mode[];
  readonly stores: readonly StoreKind[];
  /** Only this round of the one mode and store that are given with it. */
  readonly round: number | undefined;
  /** Rounds that run at the same time. Default: two for each core, as they mostly wait. */
  readonly lanes: number;
  /** For each store and mode; default: as the mode needs. */
  readonly kills: number | undefined;
  /** For each store and mode. */
  readonly minutes: number;
  /** Plants bugs and looks for them, instead. */
  readonly mutations: boolean;
}

const storeNames = ['lmdb', 'redis', 'postgres'] as const;
/** PostgreSQL only where it is named. */
const defaultStores = ['lmdb', 'redis'] as const;

export const usage = `Usage: npm run test:crash -- [--seed N] [--mode ${modeNames.join('|')}]… [--store ${storeNames.join('|')}]…
         [--round N] [--kills N] [--lanes N] [--minutes N] [--mutations]`;

/** What the command line says, or in a sentence what is wrong with it. */
export function optionsOf(args: readonly string[]): CrashOptions | { readonly problem: string } {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        seed: { type: 'string' },
        mode: { type: 'string', multiple: true },
        store: { type: 'string', multiple: true },
        round: { type: 'string' },
        lanes: { type: 'string' },
        kills: { type: 'string' },
        minutes: { type: 'string' },
        mutations: { type: 'boolean' },
      },
    });
    const round = wholeNumber('round', values.round);
    if (round !== undefined && (values.mode?.length !== 1 || values.store?.length !== 1))
      return { problem: '--round needs one --mode and one --store.' };
    return {
      seed: wholeNumber('seed', values.seed) ?? Math.floor(Math.random() * 2 ** 31),
      modes: values.mode?.map((name) => oneOf('mode', modeNames, name)) ?? modeNames,
      stores: values.store?.map((name) => oneOf('store', storeNames, name)) ?? defaultStores,
      round,
      lanes: wholeNumber('lanes', values.lanes) ?? 2 * availableParallelism(),
      kills: wholeNumber('kills', values.kills),
      minutes: wholeNumber('minutes', values.minutes) ?? 10,
      mutations: values.mutations ?? false,
    };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

function wholeNumber(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d+$/.test(text)) return Number(text);
  throw new Error(`--${name} is ${text}; give a whole number.`);
}

function oneOf<T extends string>(name: string, known: readonly T[], text: string): T {
  const found = known.find((each) => each === text);
  if (found !== undefined) return found;
  throw new Error(`--${name} is ${text}; known are ${known.join(', ')}.`);
}

import { AgentLoopError, shownValue } from '../../core/contracts/index.ts';
import { assertKnownOptions } from '../../stores/check-arguments.ts';

/** Longer than this no timer runs. */
const longestMs = 2 ** 31 - 1;

/** What an option must be: `isValid` says whether a value is, `words` says it to the user. */
export interface OptionKind {
  readonly isValid: (value: unknown) => boolean;
  readonly words: string;
  /** Whether a wrong value may be a secret, which no error shows. */
  readonly secret?: boolean;
}

export const anyMs = msFrom(0);
export const someMs = msFrom(1);
export const anyCount = countFrom(0);
export const someCount = countFrom(1);
export const aFunction: OptionKind = { isValid: (value) => typeof value === 'function', words: 'a function' };
export const aBoolean: OptionKind = { isValid: (value) => typeof value === 'boolean', words: 'true or false' };
export const aText: OptionKind = {
  isValid: (value) => typeof value === 'string' && value !== '',
  words: 'a string that is not empty',
};
export const aClock: OptionKind = { isValid: isClock, words: 'a clock: { now(), schedule(ms, callback) }' };

/** One of a few words. */
export function oneOf(...words: readonly string[]): OptionKind {
  const quoted = words.map((word) => `"${word}"`);
  return {
    isValid: (value) => words.some((word) => word === value),
    words: `${quoted.slice(0, -1).join(', ')} or ${quoted.at(-1)}`,
  };
}

/** For options that are checked where they are used. */
export const anything: OptionKind = { isValid: () => true, words: 'anything' };

/** Checks the options of a policy. Errors: `INVALID_CONFIG`, naming the first that is unknown or wrong, and what it must be. */
export function assertOptions<Options extends object>(
  policy: string,
  options: Options,
  kinds: Readonly<Record<keyof Options, OptionKind>>,
): void {
  assertKnownOptions(policy, options, kinds);
  for (const name in kinds) {
    const [value, kind] = [options[name], kinds[name]];
    if (value === undefined || kind.isValid(value)) continue;
    const must = `must be ${kind.words}`;
    throw wrongOption(policy, kind.secret ? `${name} ${must}` : `${name} is ${shownValue(value)}; it ${must}`);
  }
}

/** Errors where an option that has no default was not given. */
export function assertGiven(policy: string, name: string, value: unknown, why: string): void {
  if (value === undefined) throw wrongOption(policy, `${name} is missing: ${why}`);
}

export function wrongOption(policy: string, what: string): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', `${policy}: ${what}.`);
}

function msFrom(least: number): OptionKind {
  return {
    isValid: (value) => typeof value === 'number' && value >= least && value <= longestMs,
    words: `milliseconds, from ${least} to ${longestMs}`,
  };
}

function countFrom(least: number): OptionKind {
  return {
    isValid: (value) => typeof value === 'number' && Number.isInteger(value) && value >= least,
    words: `a whole number from ${least}`,
  };
}

function isClock(value: unknown): boolean {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof Reflect.get(value, 'now') === 'function' &&
    typeof Reflect.get(value, 'schedule') === 'function'
  );
}

import {
  AgentLoopError,
  errorCodes,
  invalidConfig,
  isObject,
  type RetryPlan,
  retryDefaults,
  shownValue,
  type TaskStateStore,
} from '../core/contracts/index.ts';

/** The validation of one option. Rooms keep tables of rules by name; absent options are handled elsewhere. */
export interface OptionRule {
  readonly fits: (value: unknown) => boolean;
  /** The rest of the error message after the option's name and `must`: `be a function`. */
  readonly must: string;
  /** What to do instead. Default: omit the option. */
  readonly cure?: string | undefined;
  /** Whether a wrong value may be a secret, which no error shows. */
  readonly secret?: boolean;
}

/** A rule for each option. */
export type OptionRules<Options> = { readonly [Name in keyof Options]-?: OptionRule };

/** The longest delay of a timer in Node. */
const longestMs = 2 ** 31 - 1;

/** For options that are validated elsewhere. */
export const anything: OptionRule = { fits: () => true, must: 'be anything' };
export const aFunction: OptionRule = { fits: (value) => typeof value === 'function', must: 'be a function' };
export const aBoolean: OptionRule = { fits: (value) => typeof value === 'boolean', must: 'be true or false' };
export const aString: OptionRule = { fits: (value) => typeof value === 'string', must: 'be a string' };
export const aName: OptionRule = {
  fits: (value) => typeof value === 'string' && value !== '',
  must: 'be a non-empty string',
};
export const anObject: OptionRule = { fits: isObject, must: 'be an object' };
export const anArray: OptionRule = { fits: Array.isArray, must: 'be an array' };
export const aClock: OptionRule = {
  fits: (value) => hasMethods(value, ['now', 'schedule']),
  must: 'be a clock: { now(), schedule(ms, callback) }',
};
export const someStrings: OptionRule = {
  fits: (value) => Array.isArray(value) && value.every((each) => typeof each === 'string'),
  must: 'be an array of strings',
};
export const anAbortSignal: OptionRule = {
  fits: (value) => isObject(value) && 'aborted' in value && hasMethods(value, ['addEventListener']),
  must: 'be an AbortSignal',
};

/** An integer that a double holds exactly. */
export function wholeNumber(least: number, most: number = Number.MAX_SAFE_INTEGER): OptionRule {
  const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`;
  return {
    fits: (value) => Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most,
    must: `be a whole number ${range}`,
  };
}

/** As `wholeNumber`, with another error message. */
export function integerFrom(least: number): OptionRule {
  return { ...wholeNumber(least), must: `be an integer ≥ ${least}` };
}

/** A delay that a timer supports. */
export function milliseconds(least: number): OptionRule {
  return {
    fits: (value) => typeof value === 'number' && value >= least && value <= longestMs,
    must: `be milliseconds from ${least} to ${longestMs}`,
  };
}

export function oneOf(...choices: readonly string[]): OptionRule {
  return { fits: (value) => choices.some((choice) => choice === value), must: `be one of ${choices.join(', ')}` };
}

/** Whether it is an object with these methods. */
export function hasMethods(value: unknown, names: readonly string[]): value is object {
  return isObject(value) && names.every((name) => typeof Reflect.get(value, name) === 'function');
}

/** Returns what is wrong with an option, as the first half of a sentence; `undefined` if it is valid or absent. */
export function flawOf(name: string, value: unknown, rule: OptionRule): string | undefined {
  if (value === undefined || rule.fits(value)) return undefined;
  return `${name} must ${rule.must}${rule.secret ? '' : `, not ${shownValue(value)}`}`;
}

/** Errors: `INVALID_CONFIG`, naming the option, the value and the fix. */
export function checkOption(name: string, value: unknown, rule: OptionRule): void {
  const flaw = flawOf(name, value, rule);
  if (flaw !== undefined) throw invalidConfig(flaw, rule.cure ?? 'or leave it out');
}

/** Checks the options that have a rule, in the order of the rules. `within`: the name of their parent option. Errors as `checkOption`. */
export function checkOptions(options: object, rules: Readonly<Record<string, OptionRule>>, within?: string): void {
  for (const [name, rule] of Object.entries(rules))
    checkOption(within === undefined ? name : `${within}.${name}`, Reflect.get(options, name), rule);
}

/** Errors: `INVALID_CONFIG` for an unknown option, naming the known ones. `of`: the name of their owner. */
export function checkNames(options: object, known: readonly string[], of: string): void {
  const stray = Object.keys(options).find((name) => !known.includes(name));
  if (stray !== undefined) throw invalidConfig(`${of} has no option "${stray}"`, optionsOf(known));
}

function optionsOf(known: readonly string[]): string {
  return known.length === 0 ? 'leave the argument out' : `the options are: ${known.join(', ')}`;
}

/** The names of an object of options, all of them and no other. */
export type OptionNames<Options> = Readonly<Record<keyof Options, true>>;

/** Refuses anything but an object of options, and an unknown option: `INVALID_CONFIG`, naming it and the known ones. */
export function assertKnownOptions<Options extends object>(
  owner: string,
  options: Options,
  names: Readonly<Record<keyof Options, unknown>>,
): void {
  const given: unknown = options;
  const known = Object.keys(names);
  if (!isObject(given))
    throw invalidConfig(`${owner} takes an object of options, not ${shownValue(given)}`, optionsOf(known));
  checkNames(given, known, owner);
}

/** Checks all options of `owner`: their names, and the values of those that are given. Errors: `INVALID_CONFIG`, naming the first. */
export function assertOptions<Options extends object>(
  owner: string,
  options: Options,
  rules: OptionRules<Options>,
): void {
  assertKnownOptions(owner, options, rules);
  for (const name in rules) {
    const { [name]: rule } = rules;
    const flaw = flawOf(name, options[name], rule);
    if (flaw !== undefined) throw wrongOption(owner, rule.cure === undefined ? flaw : `${flaw}; ${rule.cure}`);
  }
}

/** Errors where an option that has no default was not given. */
export function assertGiven(owner: string, name: string, value: unknown, cure: string): void {
  if (value === undefined) throw wrongOption(owner, `${name} is missing; ${cure}`);
}

export function wrongOption(owner: string, what: string): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', `${owner}: ${what}.`);
}

const storeMethods: readonly (keyof TaskStateStore)[] = [
  'create',
  'acquire',
  'append',
  'renew',
  'release',
  'commands',
  'post',
  'read',
  'follow',
  'publish',
];

/** Checks that a value is a store. Errors: `INVALID_CONFIG`, naming the option and the missing method. */
export function checkStore(name: string, store: unknown): asserts store is TaskStateStore {
  const missing = storeMethods.filter((method) => !hasMethods(store, [method]));
  if (missing.length === 0) return;
  if (hasMethods(store, ['save', 'load', 'delete'])) {
    throw invalidConfig(
      `${name} keeps states (save, load, delete), and turns are kept as journals`,
      `wrap it: ${name}: snapshotStateStore(store)`,
    );
  }
  const lacks = missing.length === storeMethods.length ? '' : `; it lacks ${missing.join(', ')}`;
  const cure = name === 'store' ? 'give the store of the turn' : 'give new InMemoryStateStore(), or leave it out';
  throw invalidConfig(`${name} must be a TaskStateStore${lacks}`, cure);
}

const planNames: ReadonlySet<string> = new Set<keyof RetryPlan>(['attempts', 'delayMs', 'maxDelayMs', 'on']);

/** Returns what is wrong with a plan and what is required; `undefined` if it is valid. */
export function retryPlanFlaw(plan: unknown): string | undefined {
  if (!isObject(plan)) return `must be an object { attempts, delayMs, maxDelayMs, on }, not ${shownValue(plan)}`;
  const stray = Object.keys(plan).find((name) => !planNames.has(name));
  if (stray !== undefined) return `has the unknown property ${stray}; allowed: ${[...planNames].join(', ')}`;
  const given = new Map<string, unknown>(Object.entries(plan));
  const attempts = given.get('attempts') ?? retryDefaults.attempts;
  if (!Number.isSafeInteger(attempts) || Number(attempts) < 1)
    return `needs attempts, an integer ≥ 1, not ${shownValue(attempts)}`;
  for (const name of ['delayMs', 'maxDelayMs'] as const) {
    const ms = given.get(name) ?? retryDefaults[name];
    if (typeof ms !== 'number' || !Number.isFinite(ms) || ms < 0)
      return `needs ${name}, milliseconds ≥ 0, not ${shownValue(ms)}`;
  }
  const on = given.get('on') ?? [];
  if (Array.isArray(on) && on.every((code) => errorCodes.some((known) => known === code))) return undefined;
  return `needs on, an array of error codes such as PROVIDER_RATE_LIMIT, not ${shownValue(on)}`;
}

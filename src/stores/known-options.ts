import { AgentLoopError, shownValue } from '../core/contracts/index.ts';

/** The names of an object of options, all of them and no other. */
export type OptionNames<Options> = Readonly<Record<keyof Options, true>>;

/** Refuses anything but an object of options, and an unknown option: `INVALID_CONFIG`, naming it and the known ones. */
export function assertKnownOptions<Options extends object>(
  owner: string,
  options: Options,
  names: Readonly<Record<keyof Options, unknown>>,
): void {
  const given: unknown = options;
  const list = Object.keys(names).join(', ');
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw invalid(`${owner} takes an object of options, not ${shownValue(given)}; the options are: ${list}.`);
  }
  const stray = Object.keys(given).find((name) => !Object.hasOwn(names, name));
  if (stray !== undefined) throw invalid(`${owner} has no option "${stray}"; the options are: ${list}.`);
}

function invalid(message: string): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', message);
}

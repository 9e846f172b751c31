import { InvalidArgumentError } from 'commander';
import { taskIdPattern } from '../core/contracts/index.ts';

/** Reads a whole number from `least` on, for an option of the command line. */
export function wholeNumber(least: number, most: number = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    const good = /^\d+$/.test(text) && value >= least && value <= most;
    if (good) return value;
    const limits = most === Number.MAX_SAFE_INTEGER ? `from ${least}` : `from ${least} to ${most}`;
    throw new InvalidArgumentError(`It must be a whole number ${limits}.`);
  };
}

/** Reads an http or https address, for an option of the command line. */
export function httpUrl(example: string): (text: string) => string {
  return (text) => {
    if (isHttpUrl(text)) return text;
    throw new InvalidArgumentError(`It must be an http or https address, like ${example}.`);
  };
}

export function isHttpUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol } = new URL(text);
  return protocol === 'http:' || protocol === 'https:';
}

/** Reads the id of a task or of a conversation, for an option of the command line. */
export function idArgument(text: string): string {
  if (taskIdPattern.test(text)) return text;
  throw new InvalidArgumentError('It must be 1 to 128 letters, digits and _ . : - characters.');
}

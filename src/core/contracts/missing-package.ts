import { AgentLoopError, messageOf } from './errors.ts';

/**
 * For an optional package that is not installed, or is and does not load: then it says why. `install` is what `npm install` has to be
 * given; default: the package.
 */
export function missingPackage(name: string, cause: unknown, install = name): AgentLoopError {
  const isAbsent = /^Cannot find (package|module)/.test(messageOf(cause));
  const why = isAbsent ? '' : ` (${messageOf(cause).split('\n', 1)[0]})`;
  const message = `The package "${name}" cannot be loaded${why}; run \`npm install ${install}\`.`;
  return new AgentLoopError('MISSING_PACKAGE', message, { cause });
}

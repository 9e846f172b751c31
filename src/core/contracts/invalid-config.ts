import { AgentLoopError } from './errors.ts';

/** Says what of a configuration is wrong, and the cure. */
export function invalidConfig(what: string, cure: string): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', `${what}; ${cure}.`);
}

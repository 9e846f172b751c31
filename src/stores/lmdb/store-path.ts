import { AgentLoopError } from '../../core/contracts/index.ts';

/** Refuses what is no path of a store: `INVALID_CONFIG`. */
export function assertStorePath(path: unknown): void {
  if (typeof path === 'string' && path !== '') return;
  throw new AgentLoopError('INVALID_CONFIG', 'The LMDB store needs a path: the folder that its files lie in.');
}

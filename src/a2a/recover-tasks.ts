import { firstValueFrom } from 'rxjs';
import { AgentLoopError } from '../core/errors.ts';
import type { ResolvedHandlerOptions } from './handler-options.ts';
import { isScoped } from './scope.ts';

/** How many turns are looked at, and gone on with, at a time. */
const atATime = 1_000;

/** Goes on with turns that nobody runs; those that another process takes first are left to it. Gives how many were taken. */
export async function recoverTasks({ agent, store, logger }: ResolvedHandlerOptions): Promise<number> {
  const open = [
    ...(await store.list({ state: 'working', limit: atATime })),
    ...(await store.list({ state: 'submitted', limit: atATime })),
  ];
  const left = open.filter(({ held, agentId, contextId }) => !held && agentId === agent.id && isScoped(contextId));
  const taken = await Promise.all(
    left.map(async ({ taskId }) => {
      try {
        await firstValueFrom(agent.resume(taskId, { detached: true }), { defaultValue: undefined });
        return 1;
      } catch (error) {
        const code = AgentLoopError.isInstance(error) ? error.code : 'INTERNAL';
        if (code !== 'BUSY' && code !== 'NOT_FOUND') logger?.warn('turn not recovered', { taskId, code });
        return 0;
      }
    }),
  );
  return taken.reduce<number>((sum, each) => sum + each, 0);
}

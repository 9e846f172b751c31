import type { Agent } from '../../agent/agent.ts';
import { invalidConfig, type TaskStateStore } from '../../core/contracts/index.ts';
import type { A2AServerOptions } from './server-options.ts';

/** The agent with what the server decides: where its turns are journaled, and when they drain. */
export function servedAgent({ agent, store }: A2AServerOptions, drain: AbortSignal): Agent {
  const { shutdown } = agent.options;
  return agent.variant({
    shutdown: shutdown === undefined ? drain : AbortSignal.any([shutdown, drain]),
    ...(store && { taskStateStore: store }),
  });
}

/** Errors: `INVALID_CONFIG`. */
export function storeOf(agent: Agent, store: TaskStateStore | undefined): TaskStateStore {
  const found = store ?? agent.options.taskStateStore;
  if (found === undefined) throw invalidConfig('a2aServer has no store for turns', 'give store');
  return found;
}

/** Resolves once no turn of the agent runs here. */
export function idle(agent: Agent): Promise<void> {
  if (agent.state !== 'busy') return Promise.resolve();
  return new Promise((resolve) => {
    const stop = agent.on('agent:state', ({ state }) => {
      if (state === 'busy') return;
      stop();
      resolve();
    });
  });
}

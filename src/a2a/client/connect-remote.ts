import type { AgentCard } from '@a2a-js/sdk';
import { type Agent, agent } from '../../agent/agent.ts';
import { agentToolName } from '../../agent/agent-tools.ts';
import { systemClock } from '../../core/contracts/index.ts';
import { cancelRemote } from './cancel-remote.ts';
import { RemoteConnection } from './remote-connection.ts';
import type { RemoteAgentOptions, ResolvedRemote } from './remote-options.ts';
import { remoteProvider } from './remote-provider.ts';
import { remoteTools } from './remote-tools.ts';
import { remoteValue } from './remote-value.ts';

/** How often the other side may ask within one turn, about. */
const mostSteps = 1_000;

/** The agent of `remoteAgent`, with what needs the package of the protocol. */
export async function connectRemote(options: RemoteAgentOptions, remote: ResolvedRemote): Promise<Agent> {
  const connection = new RemoteConnection(remote);
  const { clock = systemClock, extensions = [] } = remote.local;
  const named = await namesOf(options, connection);
  const times = { clock, silenceMs: remote.silenceMs, taskTimeoutMs: remote.taskTimeoutMs };
  return agent({
    ...remote.local,
    ...named,
    provider: remoteProvider({ connection, agentName: named.name, ...times }),
    tools: remoteTools(connection, { ...times, onInDoubt: remote.onInDoubt }),
    toolFailureMode: 'fail',
    contextManagement: null,
    retry: null,
    // Its waits have their own limits, silenceMs and taskTimeoutMs.
    modelSilenceMs: 0,
    maxIterations: mostSteps,
    extensions: [...extensions, remoteValue(), cancelRemote(connection, clock)],
  });
}

async function namesOf({ name, description }: RemoteAgentOptions, connection: RemoteConnection) {
  if (name !== undefined && description !== undefined) return { name, description };
  const card = await connection.card({ signal: new AbortController().signal });
  return { name: name ?? agentToolName(card), description: description ?? descriptionOf(card) };
}

/** With the skills that say more than the card does. */
function descriptionOf({ description, skills }: AgentCard): string {
  const more = skills.filter((skill) => skill.description !== description);
  const listed = more.map((skill) => `${skill.name}: ${skill.description.replace(/\.$/, '')}`).join('; ');
  return `${description}${listed && ` Its skills: ${listed}`}`;
}

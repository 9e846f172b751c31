import { type Agent, agent } from '../../agent/agent.ts';
import { agentToolName } from '../../agent/agent-tools.ts';
import { systemClock } from '../../core/clock.ts';
import { cancelRemote } from './cancel-remote.ts';
import { RemoteConnection } from './remote-connection.ts';
import { type RemoteAgentOptions, resolveRemote } from './remote-options.ts';
import { remoteProvider } from './remote-provider.ts';
import { remoteTools } from './remote-tools.ts';

/** How often the other side may ask within one turn, about. */
const mostSteps = 1_000;

/**
 * An agent of another server, reached over A2A (1.0 or 0.3), as an agent of ours: run it, give it to `agentTools` or to a `team`.
 *
 * A turn sends what the user said, follows the task that comes of it and ends as it ends; the text of its artifacts is streamed and is the
 * answer. Its questions (`input-required`, `auth-required`) suspend the turn, and the answer goes to it: a text as a text part, anything
 * else as a data part. Later turns of one context go on in one context of the other side. Unsubscribing, a cancel and a limit cancel the
 * remote task; a process that dies does not: with a `taskStateStore` the resumed turn goes on with the same task. The caller's trace
 * is sent along.
 *
 * `name` and `description` are those of its card, which is fetched at once unless both are given. Rejects with `INVALID_CONFIG`; where
 * the card is fetched also with `PROVIDER_…`, which else are errors of the turn: of one that failed on the other side `PROVIDER_FAILED`.
 */
export async function remoteAgent(options: RemoteAgentOptions): Promise<Agent> {
  const remote = resolveRemote(options);
  const connection = new RemoteConnection(remote);
  const { clock = systemClock, extensions = [] } = remote.local;
  const named = await namesOf(options, connection);
  return agent({
    ...remote.local,
    ...named,
    provider: remoteProvider({ connection, agentName: named.name, clock, silenceMs: remote.silenceMs }),
    tools: remoteTools(connection),
    toolFailureMode: 'fail',
    contextManagement: null,
    maxIterations: mostSteps,
    extensions: [...extensions, cancelRemote(connection)],
  });
}

async function namesOf({ name, description }: RemoteAgentOptions, connection: RemoteConnection) {
  if (name !== undefined && description !== undefined) return { name, description };
  const card = await connection.card({ signal: new AbortController().signal });
  const skills = card.skills.map((skill) => `${skill.name}: ${skill.description}`).join('; ');
  return {
    name: name ?? agentToolName(card),
    description: description ?? `${card.description}${skills && ` Its skills: ${skills}`}`,
  };
}

import { Agent, agent } from '../agent/agent.ts';
import type { AgentOptions, AgentSettings } from '../agent/agent-options.ts';
import { messageOf } from '../core/contracts/index.ts';
import { defaultExport, invalidFile } from './default-export.ts';

/**
 * The agent of an ES module whose default export is an `Agent`, or the options of one, also of another copy of this package. `file` is
 * relative to the working folder of the process; `defaults` count where the agent does not say otherwise.
 *
 * Rejects with `INVALID_CONFIG`, naming the file and the cure, where the file is not there, cannot be loaded, or exports something else.
 */
export async function loadAgent(file: string, defaults: Partial<AgentSettings> = {}): Promise<Agent> {
  const named = { kind: 'agent file', file };
  const exported = await defaultExport(named);
  if (isAgent(exported)) return withDefaults(exported, defaults);
  if (typeof exported === 'function')
    throw invalidFile(named, 'exports a function by default; export its result: export default agent({ … })');
  if (!isOptions(exported))
    throw invalidFile(named, 'must have an agent as its default export: export default agent({ … })');
  try {
    return agent({ ...defaults, ...exported });
  } catch (thrown) {
    throw invalidFile(named, `has an invalid agent: ${messageOf(thrown)}`, thrown);
  }
}

function withDefaults(given: Agent, defaults: Partial<AgentSettings>): Agent {
  const open = Object.entries(defaults).filter(([name]) => Reflect.get(given.options, name) === undefined);
  return open.length === 0 ? given : given.with(Object.fromEntries(open));
}

/** An agent of any copy of this package. */
function isAgent(value: unknown): value is Agent {
  if (value instanceof Agent) return true;
  if (typeof value !== 'object' || value === null) return false;
  return ['startTurn', 'resume', 'with', 'close'].every((name) => typeof Reflect.get(value, name) === 'function');
}

/** The options themselves are checked where the agent is made. */
function isOptions(value: unknown): value is AgentOptions {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && 'provider' in value;
}

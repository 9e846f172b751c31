import type { AgentLoopConfig, AgentSetup } from './core/contracts/index.ts';
import { AgentLoop as CoreLoop, type ResumeOptions, type RetryTurnOptions } from './tasks/agent-loop.ts';
import type { Turn } from './tasks/turn.ts';
import { withArtifactTools } from './tools/artifact-tools.ts';
import { withArgumentChecks } from './tools/schema-checks.ts';

/**
 * Runs turns: the model is called, the tools it asks for run, the results go back, until the model is done. Arguments of tools whose
 * definitions bring no check are checked by their JSON Schemas, unless `argumentChecks` says otherwise. With an `artifactStore` the model has
 * the tools that keep artifacts there.
 */
export class AgentLoop extends CoreLoop {
  static {
    // In a bundle the two classes of this name stand in one file, and this one gets another.
    // biome-ignore lint/complexity/noThisInStatic: the name of the class is what a bundle changes
    Object.defineProperty(this, 'name', { value: 'AgentLoop' });
  }

  /** Errors: `INVALID_CONFIG`, naming the option and the cure. */
  constructor(config: AgentLoopConfig) {
    super(completed(config));
  }

  static override resume(taskId: string, config: AgentLoopConfig, options?: ResumeOptions): Turn {
    return CoreLoop.resume(taskId, completed(config), options);
  }

  static override retry(taskId: string, config: AgentLoopConfig, options?: RetryTurnOptions): Turn {
    return CoreLoop.retry(taskId, completed(config), options);
  }
}

/** The configuration with what the core does not bring: checks of arguments, and the tools of its `artifactStore` and of those of its `agents`. */
function completed(config: AgentLoopConfig): AgentLoopConfig {
  const given = withArtifactTools(withArgumentChecks(config));
  const agents = given?.agents;
  if (typeof agents !== 'function') return given;
  const setupOf = (agentId: string): AgentSetup | undefined => {
    const setup = agents(agentId);
    return setup && withArtifactTools(setup);
  };
  return { ...given, agents: setupOf };
}

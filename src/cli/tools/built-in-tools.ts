import type { Clock } from '../../core/contracts/index.ts';
import { LocalToolProvider } from '../../tools/local-tools.ts';
import type { Tool } from '../../tools/tool.ts';
import { calculateTool } from './calculate.ts';
import { currentTimeTool } from './current-time.ts';
import { listFilesTool, readFileTool, searchFilesTool } from './file-tools.ts';
import { Workspace, type WorkspaceOptions } from './workspace.ts';

export interface BuiltInToolsOptions {
  /** The only folder that file tools read; without one there are no file tools. */
  readonly workspace?: WorkspaceOptions;
  /** Default: the system's. */
  readonly clock?: Clock;
}

/**
 * The tools that a command has without `--tools`: `calculate` and `current_time`, and for a workspace `list_files`, `read_file` and
 * `search_files`. They change nothing and reach no network. Throws `INVALID_CONFIG` where the folder cannot be a {@link Workspace}.
 */
export function builtInTools({ workspace, clock }: BuiltInToolsOptions): LocalToolProvider {
  const tools = [calculateTool(), currentTimeTool(clock), ...(workspace ? fileTools(new Workspace(workspace)) : [])];
  return new LocalToolProvider(tools, { name: 'the built-in tools' });
}

function fileTools(workspace: Workspace): readonly Tool[] {
  return [listFilesTool(workspace), readFileTool(workspace), searchFilesTool(workspace)];
}

import type { Clock } from '../../core/clock.ts';
import { LocalToolProvider } from '../../tools/local-tools.ts';
import { calculateTool } from './calculate.ts';
import { currentTimeTool } from './current-time.ts';
import { listFilesTool } from './list-files.ts';
import { readFileTool } from './read-file.ts';
import { searchFilesTool } from './search-files.ts';
import { Workspace } from './workspace.ts';

export interface WorkspaceToolsOptions {
  /** The working folder, the only one that the tools read. */
  readonly root: string;
  /** Default: the system's. */
  readonly clock?: Clock;
}

/**
 * The tools that the command has without `--tools`: `calculate`, `current_time`, `list_files`, `read_file` and
 * `search_files`. They change nothing and reach no network. Throws `INVALID_CONFIG` where `root` is not a folder.
 */
export function workspaceTools({ root, clock }: WorkspaceToolsOptions): LocalToolProvider {
  const workspace = new Workspace(root);
  const tools = [
    calculateTool(),
    currentTimeTool(clock),
    listFilesTool(workspace),
    readFileTool(workspace),
    searchFilesTool(workspace),
  ];
  return new LocalToolProvider(tools, { name: 'the built-in tools' });
}

import { type Tool, tool } from '../../tools/tool.ts';
import type { Workspace } from './workspace.ts';

const maxEntries = 500;

const parameters = {
  type: 'object',
  properties: {
    path: {
      type: 'string',
      description: 'The folder, relative to the working folder. Default: the working folder itself.',
    },
  },
  additionalProperties: false,
} as const;

/** A tool that lists a folder of the workspace, at most 500 entries, a `/` after the names of folders. */
export function listFilesTool(workspace: Workspace): Tool<{ readonly path?: string }> {
  return tool({
    name: 'list_files',
    description: 'Lists the files and folders of a folder in the working folder. Names of folders end with "/".',
    parameters,
    readOnly: true,
    onInDoubt: 'retry',
    execute: ({ path = '.' }) => listing(workspace, path),
  });
}

async function listing(workspace: Workspace, path: string): Promise<string> {
  const entries = await workspace.list(path);
  if (entries.length === 0) return 'The folder is empty.';
  const lines = entries.slice(0, maxEntries).map(({ name, kind }) => (kind === 'folder' ? `${name}/` : name));
  const rest = entries.length - lines.length;
  return rest === 0 ? lines.join('\n') : `${lines.join('\n')}\n[${rest} more are left out]`;
}

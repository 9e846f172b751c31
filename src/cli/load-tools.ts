import { type AgentLoopError, messageOf, type ToolProvider } from '../core/contracts/index.ts';
import { LocalToolProvider } from '../tools/local-tools.ts';
import { type Tool, tool } from '../tools/tool.ts';
import { assertToolOptions } from '../tools/tool-options.ts';
import { defaultExport, invalidFile } from './default-export.ts';

/**
 * The tools of an ES module whose default export is an array of `{ name, description, parameters, execute, … }`, or of
 * tools made by `tool()`, or a tool provider such as `agentTools([…])`. `file` is relative to the working folder of the process.
 *
 * Rejects with `INVALID_CONFIG`, naming the file and the cure, where the file is not there, cannot be loaded, exports
 * something else, or where a tool or its JSON Schema is not right. What the module does when it is loaded is done.
 */
export async function loadTools(file: string): Promise<ToolProvider> {
  const exported = await defaultExport({ kind: 'tools file', file });
  if (isProvider(exported)) return exported;
  if (typeof exported === 'function')
    throw invalid(file, 'exports a function by default; export its result: export default [{ … }]');
  if (!Array.isArray(exported))
    throw invalid(file, 'must have an array of tools or a tool provider as its default export: export default [{ … }]');
  const provider = new LocalToolProvider([], { name: file });
  for (const [index, entry] of exported.entries()) {
    await addTool(provider, entry).catch((thrown: unknown) => {
      throw invalid(file, `has an invalid tool, #${index + 1}: ${messageOf(thrown)}`, thrown);
    });
  }
  return provider;
}

async function addTool(provider: LocalToolProvider, entry: unknown): Promise<void> {
  const added = isTool(entry) ? entry : madeOf(entry);
  await added.prepare?.();
  provider.register(added);
}

function madeOf(entry: unknown): Tool {
  assertToolOptions(entry);
  return tool(entry);
}

function isProvider(value: unknown): value is ToolProvider {
  return typeof value === 'object' && value !== null && 'getTools' in value && 'executeTool' in value;
}

function isTool(entry: unknown): entry is Tool {
  return typeof entry === 'object' && entry !== null && 'definition' in entry && 'execute' in entry;
}

function invalid(file: string, what: string, cause?: unknown): AgentLoopError {
  return invalidFile({ kind: 'tools file', file }, what, cause);
}

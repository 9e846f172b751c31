import type { McpTools } from '../mcp/mcp-tools.ts';
import { mcpServers } from './mcp-servers.ts';
import { note } from './notes.ts';
import type { Terminal } from './terminal.ts';

/**
 * Connects to the MCP servers that the command line names. Undefined where it names none.
 * @throws AgentLoopError `INVALID_CONFIG`, `MISSING_PACKAGE`; `TOOL_FAILED` for a server that cannot be reached. None is left running then.
 */
export async function openMcp(specs: readonly string[] | undefined, terminal: Terminal): Promise<McpTools | undefined> {
  if (specs === undefined || specs.length === 0) return undefined;
  const servers = mcpServers(specs, terminal.env);
  const { mcpTools } = await import('../mcp/mcp-tools.ts');
  const silent = () => {};
  const warn = (message: string, fields: Readonly<Record<string, unknown>> = {}) =>
    note(terminal, sentenceOf(message, fields));
  const tools = mcpTools({ servers, logger: { debug: silent, info: silent, warn, error: warn } });
  try {
    await tools.connect();
    return tools;
  } catch (thrown) {
    await tools.close();
    throw thrown;
  }
}

function sentenceOf(message: string, { server, tool, why }: Readonly<Record<string, unknown>>): string {
  const what = [tool, server].filter((each) => each !== undefined).join(' of ');
  return `${message}: ${what}: ${String(why)}`;
}

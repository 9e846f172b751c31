import type { McpTools } from '../mcp/mcp-tools.ts';
import { Interrupted, type Interruption } from './interruption.ts';
import { mcpServers } from './mcp-servers.ts';
import { note } from './notes.ts';
import type { Terminal } from './terminal.ts';

export interface McpRequest {
  readonly specs: readonly string[] | undefined;
  readonly terminal: Terminal;
  /** Breaks off the connecting. Absent where nothing interrupts. */
  readonly interruption: Interruption | undefined;
}

/**
 * Connects to the MCP servers that the command line names. Undefined where it names none.
 * @throws Interrupted where the connecting was broken off.
 * @throws AgentLoopError `INVALID_CONFIG`, `MISSING_PACKAGE`; `TOOL_FAILED` for a server that cannot be reached. None is left running then.
 */
export async function openMcp({ specs, terminal, interruption }: McpRequest): Promise<McpTools | undefined> {
  if (specs === undefined || specs.length === 0) return undefined;
  const servers = mcpServers(specs, terminal.env);
  const { mcpTools } = await import('../mcp/mcp-tools.ts');
  const silent = () => {};
  const warn = (message: string, fields: Readonly<Record<string, unknown>> = {}) =>
    note(terminal, sentenceOf(message, fields));
  const tools = mcpTools({ servers, logger: { debug: silent, info: silent, warn, error: warn } });
  const stop = () => void tools.close();
  const signal = interruption?.signal;
  signal?.addEventListener('abort', stop, { once: true });
  try {
    if (signal?.aborted) stop();
    await tools.connect();
    return tools;
  } catch (thrown) {
    await tools.close();
    throw interruption?.exitCode === undefined ? thrown : new Interrupted(interruption.exitCode);
  } finally {
    signal?.removeEventListener('abort', stop);
  }
}

function sentenceOf(message: string, { server, tool, why }: Readonly<Record<string, unknown>>): string {
  const what = [tool, server].filter((each) => each !== undefined).join(' of ');
  return `${message}: ${what}: ${String(why)}`;
}

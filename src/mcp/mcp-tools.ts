import {
  AgentLoopError,
  invalidConfig,
  type Logger,
  messageOf,
  type ToolCall,
  type ToolContext,
  type ToolDefinition,
  type ToolListContext,
  type ToolProvider,
  type ToolResult,
} from '../core/contracts/index.ts';
import { guardedLogger } from '../guarded-logger.ts';
import { checkMcpOptions, type McpToolsOptions } from './mcp-options.ts';
import type { ServerTool } from './server-tool.ts';
import { ServerTools } from './server-tools.ts';

/** The tools of MCP servers. Made by {@link mcpTools}. */
export interface McpTools extends ToolProvider {
  readonly name: string;
  /** Connects to all servers now, in place of with the first turn. Rejects as `getTools` does. */
  connect(): Promise<void>;
  /**
   * Finishes a sign-in to a server outside of the turn that asked for it, so that nothing of it gets into a journal: `callback` is the address that the
   * user was sent back to, or its query. Answer the question with `true` then. Rejects with `TOOL_FAILED` where there is no such sign-in, or it
   * failed; `INVALID_CONFIG` for a server without `auth`.
   */
  finishSignIn(server: string, callback: string): Promise<void>;
  /** Ends calls that wait for answers, connections, and the servers that are processes. No tool runs after that. */
  close(): Promise<void>;
}

/**
 * The tools of MCP servers over stdio and streamable HTTP, through the optional package `@modelcontextprotocol/client`: each by its
 * server's name, `__`, and its own. It speaks the revisions 2024-10-07 to 2026-07-28 of the protocol. Nothing is started before the first turn, or `connect`; the connections are shared by all turns, and live until `close`,
 * which ends the processes too.
 *
 * A turn gets the tools that its servers have when it starts. A server that cannot be reached then is left out, told to the logger, and tried
 * again by a later turn; one that is `required` makes `getTools` reject with `TOOL_FAILED`. A server that dies, or does not answer, costs
 * the calls that run there an error that the model reads; the next call connects again, not before a growing pause where that fails.
 *
 * Arguments are checked against the server's schema. Progress is shown as `internal:tool-progress` events, `{ type: 'mcp-progress', … }`. A
 * cancel reaches the server. What a server asks the user is a question of the turn; where the answer comes later than `holdMs`, or in another
 * process, the tool runs again from its start. A call that was cut off by the death of this process is treated as the tool's annotations say.
 *
 * Memory: the lists of tools, and at most 100 calls of each server that wait for answers. Errors: `INVALID_CONFIG`; `MISSING_PACKAGE` by
 * `getTools` and `connect`.
 */
export function mcpTools(options: McpToolsOptions): McpTools {
  checkMcpOptions(options);
  return new McpToolProvider(options);
}

class McpToolProvider implements McpTools {
  readonly name: string;
  readonly #logger: Logger | undefined;
  readonly #servers: readonly ServerTools[];
  /** Of the lists that it was made of. */
  #byName: { readonly lists: readonly (readonly ServerTool[])[]; readonly tools: ReadonlyMap<string, ServerTool> } = {
    lists: [],
    tools: new Map(),
  };

  constructor({ servers, name = 'mcpTools', reconnect = {}, ...options }: McpToolsOptions) {
    const logger = guardedLogger(options.logger);
    this.name = name;
    this.#logger = logger;
    this.#servers = Object.entries(servers).map(
      ([serverName, server]) => new ServerTools({ name: serverName, server: { ...server }, reconnect, logger }),
    );
  }

  getTools(_context?: ToolListContext): readonly ToolDefinition[] | Promise<readonly ToolDefinition[]> {
    const lists = this.#servers.map((server) => this.#listOf(server));
    if (!lists.some((list) => list instanceof Promise))
      return this.#definitions(lists.flatMap((list) => (list instanceof Promise ? [] : [list])));
    return Promise.all(lists).then((all) => this.#definitions(all));
  }

  async executeTool(call: ToolCall, context: ToolContext): Promise<ToolResult> {
    const { name } = call.function;
    const tool = this.#tools(this.#servers.map(({ known }) => known)).get(name);
    if (tool) return tool.execute(context);
    throw new AgentLoopError(
      'TOOL_NOT_FOUND',
      `Tool "${name}" is not there any more: its MCP server has taken it away.`,
    );
  }

  async connect(): Promise<void> {
    await this.getTools();
  }

  async finishSignIn(server: string, callback: string): Promise<void> {
    const found = this.#servers.find(({ name }) => name === server);
    if (!found?.signsIn) throw invalidConfig(`there is no MCP server "${server}" with auth`, 'name one of servers');
    const why = await found.finishSignIn(callback);
    if (why !== undefined)
      throw new AgentLoopError('TOOL_FAILED', `The sign-in to the MCP server "${server}" failed: ${why}.`);
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.close()));
  }

  #listOf(server: ServerTools): readonly ServerTool[] | Promise<readonly ServerTool[]> {
    const list = server.current();
    if (!(list instanceof Promise)) return list;
    return list.catch((error: unknown) => {
      const isOurs = AgentLoopError.isInstance(error) && error.code !== 'TOOL_FAILED';
      if (server.isRequired || isOurs) throw error;
      this.#logger?.warn('MCP server skipped', { server: server.name, why: messageOf(error) });
      return [];
    });
  }

  #definitions(lists: readonly (readonly ServerTool[])[]): readonly ToolDefinition[] {
    return [...this.#tools(lists).values()].map(({ definition }) => definition);
  }

  /** Without prefixes, two servers may have tools of one name; the first one counts. */
  #tools(lists: readonly (readonly ServerTool[])[]): ReadonlyMap<string, ServerTool> {
    const known = this.#byName;
    if (known.lists.length === lists.length && lists.every((list, index) => list === known.lists[index]))
      return known.tools;
    const tools = new Map<string, ServerTool>();
    for (const tool of lists.flat()) {
      const { name } = tool.definition.function;
      if (tools.has(name))
        this.#logger?.warn('MCP tool skipped', { tool: name, why: 'another server has a tool of this name' });
      else tools.set(name, tool);
    }
    this.#byName = { lists, tools };
    return tools;
  }
}

import type { Tool } from '@modelcontextprotocol/sdk/types.js';
import { type JSONSchema, type Logger, messageOf, type ToolDefinition } from '../core/contracts/index.ts';
import { foreignSchemaChecker, verifyForeignSchema } from '../tools/limited-schema.ts';
import { toolError } from './call-failure.ts';
import type { McpConnection } from './mcp-connection.ts';
import type { McpToolInfo } from './mcp-options.ts';
import { resourceTools, type ServerTool } from './resource-tools.ts';
import { ServerLink, type ServerLinkOptions } from './server-link.ts';
import { ToolCalls } from './tool-calls.ts';
import { exposedName } from './tool-names.ts';
import { policyOfTool } from './tool-policy.ts';

export interface ServerToolsOptions extends Omit<ServerLinkOptions, 'onToolsChanged'> {
  readonly logger: Logger | undefined;
}

/** The tools of one server: as it listed them last, and listed anew where it said that they changed, or was connected again. */
export class ServerTools {
  readonly #options: ServerToolsOptions;
  readonly #link: ServerLink;
  readonly #calls: ToolCalls;
  #tools: readonly ServerTool[] = [];
  /** Grows with each change that the server tells. */
  #version = 0;
  #listedVersion = -1;
  #listing: Promise<readonly ServerTool[]> | undefined;

  constructor(options: ServerToolsOptions) {
    this.#options = options;
    this.#link = new ServerLink({ ...options, onToolsChanged: () => this.#version++ });
    this.#calls = new ToolCalls(this.#link);
  }

  get name(): string {
    return this.#options.name;
  }

  get isRequired(): boolean {
    return this.#options.server.required === true;
  }

  /** As they were listed last, whether or not the server is there. */
  get known(): readonly ServerTool[] {
    return this.#tools;
  }

  /** The tools of now. Rejects, in words for the user, where the server cannot be reached. */
  current(): readonly ServerTool[] | Promise<readonly ServerTool[]> {
    const { connection } = this.#link;
    if (connection && !connection.probing && this.#listedVersion === this.#version) return this.#tools;
    this.#listing ??= this.#list().finally(() => {
      this.#listing = undefined;
    });
    return this.#listing;
  }

  async close(): Promise<void> {
    this.#calls.close();
    await this.#link.close();
  }

  async #list(): Promise<readonly ServerTool[]> {
    const connection = await this.#link.connected();
    const version = this.#version;
    if (version === this.#listedVersion) return this.#tools;
    const listed = await this.#listed(connection);
    const tools: ServerTool[] = [];
    for (const tool of listed) {
      const made = await this.#made(tool).catch((error: unknown) => this.#leaveOut(tool.name, messageOf(error)));
      if (made) tools.push(made);
    }
    if (this.#options.server.resources && connection.client.getServerCapabilities()?.resources)
      tools.push(...resourceTools(this.#link, this.#prefix));
    this.#tools = this.#eachOnce(tools);
    this.#listedVersion = version;
    return this.#tools;
  }

  async #listed(connection: McpConnection): Promise<readonly Tool[]> {
    const { tools: wanted } = this.#options.server;
    try {
      const { tools, flawed } = await connection.listTools();
      const isWanted = (name: string | undefined) => !wanted || (name !== undefined && wanted.includes(name));
      for (const { name, why } of flawed) if (isWanted(name)) this.#leaveOut(name ?? 'a tool without a name', why);
      const missing = wanted?.filter((name) => ![...tools, ...flawed].some((tool) => tool.name === name)) ?? [];
      for (const name of missing) this.#leaveOut(name, 'the server has no such tool');
      return tools.filter(({ name }) => isWanted(name));
    } catch (thrown) {
      const failure = this.#link.failureOf(thrown);
      this.#link.attendTo(failure, connection);
      throw toolError(this.#link.name, failure, false);
    }
  }

  async #made(tool: Tool): Promise<ServerTool> {
    const { server, name: serverName } = this.#options;
    const { name, title, description, annotations = {}, outputSchema, execution } = tool;
    const words = { ...(title !== undefined && { title }), ...(description !== undefined && { description }) };
    const info: McpToolInfo = { server: serverName, name, ...words, annotations: hintsOf(annotations) };
    const parameters: JSONSchema = tool.inputSchema;
    const owner = `tool "${name}" of the MCP server "${serverName}"`;
    await verifyForeignSchema(parameters, owner);
    const definition: ToolDefinition = {
      type: 'function',
      function: {
        name: exposedName(this.#prefix, name),
        description: description?.trim() || (title ?? annotations.title ?? `The tool ${name} of ${serverName}.`),
        parameters,
      },
      checkArguments: foreignSchemaChecker(parameters, owner),
      ...policyOfTool(info, server),
    };
    const checkOutput = outputSchema && foreignSchemaChecker(outputSchema, `the output of ${owner}`);
    const target = { name, checkOutput, asTask: execution?.taskSupport === 'required' };
    return { definition, execute: (context) => this.#calls.run(target, context) };
  }

  get #prefix(): string {
    return this.#options.server.prefix ?? `${this.#options.name}__`;
  }

  #eachOnce(tools: readonly ServerTool[]): readonly ServerTool[] {
    const names = new Set<string>();
    return tools.filter(({ definition }) => {
      const { name } = definition.function;
      if (!names.has(name)) return names.add(name);
      this.#leaveOut(name, 'there is another one of that name');
      return false;
    });
  }

  #leaveOut(tool: string, why: string): undefined {
    this.#options.logger?.warn('MCP tool left out', { server: this.#link.name, tool, why });
  }
}

function hintsOf({ title: _, ...hints }: NonNullable<Tool['annotations']>): McpToolInfo['annotations'] {
  const { readOnlyHint, destructiveHint, idempotentHint, openWorldHint } = hints;
  return {
    ...(readOnlyHint !== undefined && { readOnlyHint }),
    ...(destructiveHint !== undefined && { destructiveHint }),
    ...(idempotentHint !== undefined && { idempotentHint }),
    ...(openWorldHint !== undefined && { openWorldHint }),
  };
}

import { createHash } from 'node:crypto';
import type { RequestOptions, Tool } from '@modelcontextprotocol/client';
import {
  type Content,
  type JSONSchema,
  type Logger,
  messageOf,
  type ToolContext,
  type ToolDefinition,
  type ToolPolicy,
  type ToolResult,
} from '../core/contracts/index.ts';
import { foreignSchemaChecker, jsonSchemaChecker, verifyForeignSchema } from '../tools/schema-checks.ts';
import { toolError } from './call-failure.ts';
import { contentOfResource } from './content-parts.ts';
import type { McpConnection } from './mcp-connection.ts';
import type { McpAnnotations, McpServerOptions, McpToolInfo } from './mcp-options.ts';
import { defaultIdleMs, noteRequest, ServerLink, type ServerLinkOptions } from './server-link.ts';
import { ToolCalls } from './tool-calls.ts';

interface ServerToolsOptions extends Omit<ServerLinkOptions, 'onToolsChanged'> {
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
  /** Until when the list counts, where the server does not tell of changes. */
  #validUntil = 0;
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
    if (connection && !connection.probing && this.#isValid(connection)) return this.#tools;
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
    if (this.#isValid(connection)) return this.#tools;
    await connection.listenForChanges();
    const version = this.#version;
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

  #isValid(connection: McpConnection): boolean {
    if (this.#listedVersion !== this.#version) return false;
    return connection.tellsChanges || Date.now() < this.#validUntil;
  }

  async #listed(connection: McpConnection): Promise<readonly Tool[]> {
    const { tools: wanted } = this.#options.server;
    try {
      const { tools, flawed, ttlMs = 0 } = await connection.listTools();
      this.#validUntil = Date.now() + ttlMs;
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
    const { name, title, description, annotations = {}, outputSchema } = tool;
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
    const target = { tool, checkOutput };
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

/** A tool of a server, as the engine sees it. */
export interface ServerTool {
  readonly definition: ToolDefinition;
  readonly execute: (context: ToolContext) => Promise<ToolResult>;
}

/** A server's resources as two tools: one that lists them, one that reads one. */
function resourceTools(link: ServerLink, prefix: string): readonly ServerTool[] {
  return [resourceTool(link, prefix, lists), resourceTool(link, prefix, reads)];
}

interface ResourceTool {
  readonly name: string;
  readonly does: string;
  readonly parameters: JSONSchema;
  readonly method: string;
  readonly ask: (connection: McpConnection, given: Given, options: RequestOptions) => Promise<Content>;
}

interface Given {
  readonly cursor?: string;
  readonly uri?: string;
}

const lists: ResourceTool = {
  name: 'list_resources',
  does: 'Lists the resources',
  parameters: {
    type: 'object',
    properties: { cursor: { type: 'string', description: 'The nextCursor of the page before.' } },
  },
  method: 'resources/list',
  async ask({ client }, { cursor }, options) {
    const request = { method: 'resources/list' as const, params: cursor === undefined ? {} : { cursor } };
    const { resources, nextCursor } = await client.request(request, options);
    const templates = cursor === undefined ? await templatesOf(client, options) : [];
    const shown = resources.map(({ uri, name, description, mimeType }) => ({ uri, name, description, mimeType }));
    return JSON.stringify({ resources: shown, ...(templates.length > 0 && { templates }), nextCursor });
  },
};

const reads: ResourceTool = {
  name: 'read_resource',
  does: 'Reads a resource',
  parameters: {
    type: 'object',
    properties: { uri: { type: 'string', description: 'As the list has it, or made by a template of it.' } },
    required: ['uri'],
  },
  method: 'resources/read',
  ask: async ({ client }, { uri = '' }, options) =>
    contentOfResource(await client.request({ method: 'resources/read', params: { uri } }, options)),
};

function resourceTool(link: ServerLink, prefix: string, tool: ResourceTool): ServerTool {
  const { name, does, parameters } = tool;
  return {
    definition: {
      type: 'function',
      function: {
        name: exposedName(prefix, name),
        description: `${does} of the MCP server "${link.name}".`,
        parameters,
      },
      checkArguments: jsonSchemaChecker(parameters, name),
      readOnly: true,
      onInDoubt: 'retry',
      timeoutMs: 0,
    },
    async execute(context) {
      return { toolCallId: context.call.id, content: await asked(link, tool, context), success: true };
    },
  };
}

async function asked(link: ServerLink, { method, ask }: ResourceTool, context: ToolContext): Promise<Content> {
  const given = givenIn(context.arguments);
  const { timeoutMs: timeout = defaultIdleMs } = link.server;
  for (let again = false; ; again = true) {
    const connection = await link.connected();
    const noted = { method, link, connection, ...(given.uri !== undefined && { resourceUri: given.uri }) };
    noteRequest(context.traceContext, noted);
    try {
      const content = await ask(connection, given, { signal: context.signal, timeout });
      connection.proven = true;
      return content;
    } catch (thrown) {
      const failure = context.signal.aborted
        ? ({ kind: 'canceled', what: 'was left' } as const)
        : link.failureOf(thrown);
      link.attendTo(failure, connection);
      if (failure.kind !== 'session-lost' || again || !connection.proven) throw toolError(link.name, failure, false);
    }
  }
}

/** A server without templates may answer that it knows no such method. */
async function templatesOf(client: McpConnection['client'], options: RequestOptions): Promise<readonly object[]> {
  try {
    const { resourceTemplates } = await client.request({ method: 'resources/templates/list', params: {} }, options);
    return resourceTemplates.map(({ uriTemplate, name, description }) => ({ uriTemplate, name, description }));
  } catch {
    return [];
  }
}

function givenIn(args: unknown): Given {
  if (typeof args !== 'object' || args === null) return {};
  const { cursor, uri } = { cursor: undefined, uri: undefined, ...args };
  return { ...(typeof cursor === 'string' && { cursor }), ...(typeof uri === 'string' && { uri }) };
}

/**
 * How the engine treats a tool of a server. A call that was in doubt runs again where the tool only reads or is idempotent, is asked about
 * where the server says that it may destroy something, and else fails. The limits of time are the connection's own.
 */
export function policyOfTool(tool: McpToolInfo, server: McpServerOptions): ToolPolicy {
  const hints = server.trustAnnotations === false ? {} : tool.annotations;
  const needsApproval = approvalOf(tool, hints, server.needsApproval);
  return {
    timeoutMs: 0,
    ...effectsOf(hints),
    ...(needsApproval !== undefined && { needsApproval }),
    ...server.policy?.(tool),
  };
}

function effectsOf({ readOnlyHint, idempotentHint, destructiveHint }: McpAnnotations): ToolPolicy {
  if (readOnlyHint === true) return { readOnly: true, onInDoubt: 'retry' };
  if (idempotentHint === true) return { idempotent: true, onInDoubt: 'retry' };
  return destructiveHint === true ? { onInDoubt: 'ask' } : {};
}

function approvalOf(
  tool: McpToolInfo,
  hints: McpAnnotations,
  needed: McpServerOptions['needsApproval'],
): ToolPolicy['needsApproval'] {
  if (typeof needed === 'function') return (args, context) => needed(tool, args, context);
  if (needed !== 'destructive') return needed;
  // A tool that says nothing of its effects may destroy something: so the protocol has it.
  return hints.readOnlyHint !== true && hints.destructiveHint !== false;
}

const maxLength = 64;

/** Names for the model, in the letters that all vendors take, each once: a name that had to be changed or cut ends in a digest of the original. */
export function exposedName(prefix: string, name: string): string {
  const plain = `${prefix}${name.replaceAll(/[^a-zA-Z0-9_-]/g, '_')}`;
  if (plain === `${prefix}${name}` && plain.length <= maxLength) return plain;
  const digest = createHash('sha256').update(name).digest('hex').slice(0, 8);
  return `${plain.slice(0, maxLength - digest.length - 1)}_${digest}`;
}

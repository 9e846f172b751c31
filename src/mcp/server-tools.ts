import type { Tool } from '@modelcontextprotocol/client';
import {
  type JSONSchema,
  type Logger,
  messageOf,
  type ToolDefinition,
  type ToolPolicy,
} from '../core/contracts/index.ts';
import { foreignSchemaChecker, verifyForeignSchema } from '../tools/schema-checks.ts';
import { toolError } from './call-failure.ts';
import type { McpConnection } from './mcp-connection.ts';
import { isHttp, type McpAnnotations, type McpServerOptions, type McpToolInfo } from './mcp-options.ts';
import { promptTools, resourceTools } from './resource-tools.ts';
import { ServerLink, type ServerLinkOptions } from './server-link.ts';
import { exposedName, type ServerTool } from './server-tool.ts';
import { isOAuth, type McpAuthStore } from './sign-in/auth-options.ts';
import { signInTool } from './sign-in/sign-in-questions.ts';
import { authKey } from './sign-in/sign-in-records.ts';
import { SignInNeeded } from './sign-in/stored-sign-in.ts';
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

  get signsIn(): boolean {
    return this.#authStore !== undefined;
  }

  /** Returns why that failed, as the rest of a sentence. */
  finishSignIn(callback: string): Promise<string | undefined> {
    return this.#link.finishSignIn(callback);
  }

  async close(): Promise<void> {
    this.#calls.close();
    await this.#link.close();
  }

  async #list(): Promise<readonly ServerTool[]> {
    try {
      return await this.#listAt(await this.#link.connected());
    } catch (thrown) {
      if (!(thrown instanceof SignInNeeded)) throw thrown;
      // Turns that wait for the sign-in need their tools.
      this.#tools = this.#eachOnce([
        ...(await this.#madeAll(await this.#remembered())),
        signInTool(this.#link, this.#prefix),
      ]);
      return this.#tools;
    }
  }

  async #listAt(connection: McpConnection): Promise<readonly ServerTool[]> {
    if (this.#isValid(connection)) return this.#tools;
    await connection.listenForChanges();
    const version = this.#version;
    const listed = await this.#listed(connection);
    await this.#authStore?.save(authKey(this.#address, 'tools'), listed);
    const tools = await this.#madeAll(listed);
    if (this.#options.server.resources && connection.client.getServerCapabilities()?.resources)
      tools.push(...resourceTools(this.#link, this.#prefix));
    if (this.#options.server.prompts && connection.client.getServerCapabilities()?.prompts)
      tools.push(...promptTools(this.#link, this.#prefix));
    if (this.#authStore) tools.push(signInTool(this.#link, this.#prefix));
    this.#tools = this.#eachOnce(tools);
    this.#listedVersion = version;
    return this.#tools;
  }

  /** The tools that the server had when somebody was signed in. */
  async #remembered(): Promise<readonly Tool[]> {
    const { specTypeSchemas } = await this.#link.sdk();
    const kept = await this.#authStore?.load(authKey(this.#address, 'tools'));
    return (Array.isArray(kept) ? kept : []).flatMap((each: unknown) => {
      const parsed = specTypeSchemas.Tool['~standard'].validate(each);
      return parsed.issues ? [] : [parsed.value];
    });
  }

  get #authStore(): McpAuthStore | undefined {
    const { server } = this.#options;
    return isHttp(server) && isOAuth(server.auth) ? server.auth.store : undefined;
  }

  get #address(): string | URL {
    const { server } = this.#options;
    return isHttp(server) ? server.url : '';
  }

  async #madeAll(listed: readonly Tool[]): Promise<ServerTool[]> {
    const tools: ServerTool[] = [];
    for (const tool of listed) {
      const made = await this.#made(tool).catch((error: unknown) => this.#leaveOut(tool.name, messageOf(error)));
      if (made) tools.push(made);
    }
    return tools;
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
      const signIn = this.#link.signInFor(thrown, connection);
      if (signIn) throw signIn;
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
    this.#options.logger?.warn('MCP tool skipped', { server: this.#link.name, tool, why });
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

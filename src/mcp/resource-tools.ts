import type { RequestOptions } from '@modelcontextprotocol/client';
import type { Content, JSONSchema, ToolContext } from '../core/contracts/index.ts';
import { jsonSchemaChecker } from '../tools/schema-checks.ts';
import { toolError } from './call-failure.ts';
import { contentOfResource } from './content-parts.ts';
import type { McpConnection } from './mcp-connection.ts';
import { defaultIdleMs, noteRequest, type ServerLink } from './server-link.ts';
import { exposedName, type ServerTool } from './server-tool.ts';
import { signInQuestions } from './sign-in/sign-in-questions.ts';

/** A server's resources as two tools: one that lists them, one that reads one. */
export function resourceTools(link: ServerLink, prefix: string): readonly ServerTool[] {
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
      const signIns = await signInQuestions(link, context);
      const content = await signIns.during(() => asked(link, tool, context));
      return { toolCallId: context.call.id, content, success: true };
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
      const signIn = link.signInFor(thrown, connection);
      if (signIn) throw signIn;
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

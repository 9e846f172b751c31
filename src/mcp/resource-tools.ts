import type { RequestOptions } from '@modelcontextprotocol/client';
import { type Content, isObject, type JSONSchema, type ToolContext } from '../core/contracts/index.ts';
import { jsonSchemaChecker } from '../tools/schema-checks.ts';
import { toolError } from './call-failure.ts';
import { contentOfPrompt, contentOfResource } from './content-parts.ts';
import type { McpConnection } from './mcp-connection.ts';
import { defaultIdleMs, noteRequest, type ServerLink } from './server-link.ts';
import { exposedName, type ServerTool } from './server-tool.ts';
import { signInQuestions } from './sign-in/sign-in-questions.ts';

/** A server's resources as two tools: one lists them, one reads one. */
export function resourceTools(link: ServerLink, prefix: string): readonly ServerTool[] {
  return [readingTool(link, prefix, resourceList), readingTool(link, prefix, resourceRead)];
}

/** A server's prompts as two tools: one lists them with their arguments, one returns the messages of one. */
export function promptTools(link: ServerLink, prefix: string): readonly ServerTool[] {
  return [readingTool(link, prefix, promptList), readingTool(link, prefix, promptGet)];
}

type Client = McpConnection['client'];

interface ReadingTool {
  readonly name: string;
  readonly does: string;
  readonly parameters: JSONSchema;
  readonly method: string;
  readonly ask: (connection: McpConnection, given: Given, options: RequestOptions) => Promise<Content>;
}

interface Given {
  readonly cursor?: string;
  readonly uri?: string;
  readonly name?: string;
  readonly values?: Readonly<Record<string, string>>;
}

const resourceList = listTool('resources', async (client, params, options) => {
  const { resources, nextCursor } = await client.request({ method: 'resources/list', params }, options);
  const templates = params.cursor === undefined ? await templatesOf(client, options) : [];
  const shown = resources.map(({ uri, name, description, mimeType }) => ({ uri, name, description, mimeType }));
  return { resources: shown, ...(templates.length > 0 && { templates }), nextCursor };
});

const resourceRead: ReadingTool = {
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

const promptList = listTool('prompts', async (client, params, options) => {
  const { prompts, nextCursor } = await client.request({ method: 'prompts/list', params }, options);
  const shown = prompts.map(({ name, title, description, arguments: args }) => ({
    name,
    title,
    description,
    arguments: args,
  }));
  return { prompts: shown, nextCursor };
});

const promptGet: ReadingTool = {
  name: 'get_prompt',
  does: 'Returns the messages of a prompt',
  parameters: {
    type: 'object',
    properties: {
      name: { type: 'string', description: 'As the list has it.' },
      arguments: {
        type: 'object',
        description: 'The arguments that the list names, as strings.',
        additionalProperties: { type: 'string' },
      },
    },
    required: ['name'],
  },
  method: 'prompts/get',
  ask: async ({ client }, { name = '', values = {} }, options) =>
    contentOfPrompt(
      await client.request({ method: 'prompts/get', params: { name, arguments: { ...values } } }, options),
    ),
};

/** Lists page by page; `page` returns what the model reads of one. */
function listTool(
  what: 'resources' | 'prompts',
  page: (client: Client, params: Pick<Given, 'cursor'>, options: RequestOptions) => Promise<object>,
): ReadingTool {
  return {
    name: `list_${what}`,
    does: `Lists the ${what}`,
    parameters: {
      type: 'object',
      properties: { cursor: { type: 'string', description: 'The nextCursor of the page before.' } },
    },
    method: `${what}/list`,
    ask: async ({ client }, { cursor }, options) =>
      JSON.stringify(await page(client, cursor === undefined ? {} : { cursor }, options)),
  };
}

function readingTool(link: ServerLink, prefix: string, tool: ReadingTool): ServerTool {
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

async function asked(link: ServerLink, { method, ask }: ReadingTool, context: ToolContext): Promise<Content> {
  const given = givenIn(context.arguments);
  const { timeoutMs: timeout = defaultIdleMs } = link.server;
  for (let again = false; ; again = true) {
    const connection = await link.connected();
    const noted = {
      method,
      link,
      connection,
      ...(given.uri !== undefined && { resourceUri: given.uri }),
      ...(given.name !== undefined && { promptName: given.name }),
    };
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
async function templatesOf(client: Client, options: RequestOptions): Promise<readonly object[]> {
  try {
    const { resourceTemplates } = await client.request({ method: 'resources/templates/list', params: {} }, options);
    return resourceTemplates.map(({ uriTemplate, name, description }) => ({ uriTemplate, name, description }));
  } catch {
    return [];
  }
}

const none: { [Name in 'cursor' | 'uri' | 'name' | 'arguments']?: unknown } = {};

function givenIn(args: unknown): Given {
  if (typeof args !== 'object' || args === null) return {};
  const { cursor, uri, name, arguments: values } = { ...none, ...args };
  return {
    ...(typeof cursor === 'string' && { cursor }),
    ...(typeof uri === 'string' && { uri }),
    ...(typeof name === 'string' && { name }),
    ...(isObject(values) && { values: stringsOf(values) }),
  };
}

/** The protocol has strings only; other values that a model sends become their JSON. */
function stringsOf(values: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const texts = Object.entries(values).map(([name, value]) => [
    name,
    typeof value === 'string' ? value : JSON.stringify(value),
  ]);
  return Object.fromEntries(texts);
}

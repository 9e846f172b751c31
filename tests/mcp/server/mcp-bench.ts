import { afterEach } from '@jest/globals';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  type CallToolResult,
  CallToolResultSchema,
  type ElicitRequest,
  ElicitRequestSchema,
  type ElicitResult,
} from '@modelcontextprotocol/sdk/types.js';
import { type Agent, agent, LocalToolProvider, type Tool } from 'millrace';
import { type ListenOptions, type McpServerSettings, mcpServer } from 'millrace/mcp';
import { type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import type { AgentSettings } from 'millrace/types';

export const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

export function clerk(
  steps: readonly ScriptedLLMStep[],
  options: Partial<AgentSettings> & { tools?: readonly Tool[] } = {},
): Agent {
  const { tools = [], ...rest } = options;
  const toolProviders = [new LocalToolProvider(tools)];
  return agent({
    name: 'the clerk',
    description: 'Files things.',
    provider: scriptedLLM(steps),
    toolProviders,
    ...rest,
  });
}

export async function served(
  theAgent: Agent,
  { settings = {}, listen = {} }: { settings?: Partial<McpServerSettings>; listen?: ListenOptions } = {},
): Promise<string> {
  const server = mcpServer({ agent: theAgent, ...settings });
  closing.push(() => server.close());
  return (await server.listen(listen)).url;
}

export type Answer = (params: ElicitRequest['params']) => ElicitResult;

export async function clientOf(
  url: string,
  { answer, headers = {} }: { answer?: Answer; headers?: Record<string, string> } = {},
): Promise<Client> {
  const client = new Client(
    { name: 'test', version: '1' },
    { capabilities: answer ? { elicitation: { form: {}, url: {} } } : {} },
  );
  if (answer) client.setRequestHandler(ElicitRequestSchema, ({ params }) => answer(params));
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  closing.push(() => client.close());
  return client;
}

export async function call(client: Client, args: Record<string, unknown>): Promise<CallToolResult> {
  const request = { method: 'tools/call' as const, params: { name: 'the_clerk', arguments: args } };
  return client.request(request, CallToolResultSchema);
}

export function said({ content }: CallToolResult): string {
  return content.map((part) => (part.type === 'text' ? part.text : part.type)).join('\n');
}

import { PassThrough } from 'node:stream';
import { Client, type ElicitResult, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as OldHttp } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { StdioServerTransport as OldStreams } from '@modelcontextprotocol/sdk/server/stdio.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import type { McpServer } from 'millrace/mcp';

interface CallOptions {
  readonly signal?: AbortSignal;
  readonly onprogress?: (progress: { readonly message?: string | undefined }) => void;
}

export interface CallResult {
  readonly content: readonly { readonly type: string; readonly text?: unknown }[];
  readonly structuredContent?: unknown;
  readonly isError?: boolean | undefined;
}

/** A client of any version of the official SDK. */
export interface AnyClient {
  /** That was negotiated. */
  readonly revision: string | undefined;
  listTools(): Promise<readonly { readonly name: string; readonly outputSchema?: unknown }[]>;
  call(args: Readonly<Record<string, unknown>>, options?: CallOptions): Promise<CallResult>;
  close(): Promise<void>;
}

interface Connecting {
  readonly server: McpServer;
  /** Answers questions. Default: the client cannot ask. */
  readonly answer?: ((params: { readonly message: string }) => ElicitResult | Promise<ElicitResult>) | undefined;
}

export interface Era {
  readonly name: string;
  /** Whether its calls are of 2026-07-28. */
  readonly isNew: boolean;
  connect(connecting: Connecting): Promise<AnyClient>;
}

const info = { name: 'test', version: '1' };
const tool = 'the_clerk';

function streamsTo(server: McpServer): { readonly input: PassThrough; readonly output: PassThrough } {
  const [input, output] = [new PassThrough(), new PassThrough()];
  void server.serve({ stdin: output, stdout: input });
  return { input, output };
}

async function oldClient({ server, answer }: Connecting, over: 'HTTP' | 'stdio'): Promise<AnyClient> {
  const client = new OldClient(info, { capabilities: answer ? { elicitation: { form: {}, url: {} } } : {} });
  if (answer) client.setRequestHandler(ElicitRequestSchema, ({ params }) => answer(params));
  const transportOf = async () => {
    if (over === 'HTTP') return new OldHttp(new URL((await server.listen()).url));
    const { input, output } = streamsTo(server);
    return new OldStreams(input, output);
  };
  const transport: Transport = await transportOf();
  const keep = transport.setProtocolVersion?.bind(transport);
  let revision: string | undefined;
  transport.setProtocolVersion = (version) => {
    revision = version;
    keep?.(version);
  };
  await client.connect(transport);
  return {
    revision,
    listTools: async () => (await client.listTools()).tools,
    call: (args, options) =>
      client.request({ method: 'tools/call', params: { name: tool, arguments: args } }, CallToolResultSchema, options),
    close: () => client.close(),
  };
}

type Mode = 'legacy' | 'auto' | { readonly pin: string };

async function newClient({ server, answer }: Connecting, mode: Mode, over: 'HTTP' | 'stdio'): Promise<AnyClient> {
  const capabilities = answer ? { elicitation: { form: {}, url: {} } } : {};
  const client = new Client(info, { capabilities, versionNegotiation: { mode } });
  if (answer) client.setRequestHandler('elicitation/create', ({ params }) => answer(params));
  if (over === 'HTTP') await client.connect(new StreamableHTTPClientTransport(new URL((await server.listen()).url)));
  else {
    const { input, output } = streamsTo(server);
    await client.connect(new StdioServerTransport(input, output));
  }
  return {
    revision: client.getNegotiatedProtocolVersion(),
    listTools: async () => (await client.listTools()).tools,
    call: (args, options) => client.callTool({ name: tool, arguments: args }, options),
    close: () => client.close(),
  };
}

/** The clients of both SDKs, over both transports, with what they speak to a server of ours. */
export const eras: readonly Era[] = [
  { name: 'the SDK of version 1 over HTTP', isNew: false, connect: (to) => oldClient(to, 'HTTP') },
  { name: 'the SDK of version 1 over stdio', isNew: false, connect: (to) => oldClient(to, 'stdio') },
  {
    name: 'the SDK of version 2 over HTTP, by default',
    isNew: false,
    connect: (to) => newClient(to, 'legacy', 'HTTP'),
  },
  { name: 'the SDK of version 2 over HTTP, auto', isNew: true, connect: (to) => newClient(to, 'auto', 'HTTP') },
  {
    name: 'the SDK of version 2 over HTTP, pinned',
    isNew: true,
    connect: (to) => newClient(to, { pin: '2026-07-28' }, 'HTTP'),
  },
  {
    name: 'the SDK of version 2 over stdio, by default',
    isNew: false,
    connect: (to) => newClient(to, 'legacy', 'stdio'),
  },
  { name: 'the SDK of version 2 over stdio, auto', isNew: true, connect: (to) => newClient(to, 'auto', 'stdio') },
];

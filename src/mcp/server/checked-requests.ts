import type { Server } from '@modelcontextprotocol/sdk/server/index.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCRequest } from '@modelcontextprotocol/sdk/types.js';
import type { ServerSdk } from '../load-sdk.ts';

/**
 * Connects a server to its client, and answers requests whose parameters do not fit their method with `InvalidParams`, naming the first
 * member that is wrong. The SDK answers them with an internal error, as if the server had failed.
 */
export async function connectChecked(server: Server, transport: Transport, { types }: ServerSdk): Promise<void> {
  const schemas = {
    initialize: types.InitializeRequestSchema,
    ping: types.PingRequestSchema,
    'tools/list': types.ListToolsRequestSchema,
    'tools/call': types.CallToolRequestSchema,
  };
  const problemOf = (request: JSONRPCRequest): string | undefined => {
    const { method } = request;
    if (!isKeyOf(schemas, method)) return undefined;
    const { error } = schemas[method].safeParse(request);
    if (!error) return undefined;
    const { path = [], message = 'is not right' } = error.issues[0] ?? {};
    return `${path.join('.') || 'The request'}: ${message}`;
  };
  await server.connect(transport);
  const receive = transport.onmessage;
  transport.onmessage = (message, extra) => {
    const problem = types.isJSONRPCRequest(message) ? problemOf(message) : undefined;
    if (problem === undefined || !types.isJSONRPCRequest(message)) return receive?.(message, extra);
    const error = { code: types.ErrorCode.InvalidParams, message: problem };
    // A client that is gone needs no answer.
    transport.send({ jsonrpc: '2.0', id: message.id, error }).catch(() => {});
  };
}

function isKeyOf<T extends object>(table: T, name: string): name is Extract<keyof T, string> {
  return Object.hasOwn(table, name);
}

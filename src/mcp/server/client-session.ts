import type { Server } from '@modelcontextprotocol/sdk/server/index.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCRequest, Tool } from '@modelcontextprotocol/sdk/types.js';
import type { AgentSettings } from '../../agent/agent-options.ts';
import type { ServerSdk } from '../load-sdk.ts';
import { failedCall, runTurn, type ServedAgent } from './run-turn.ts';

export interface ClientSessionOptions {
  readonly sdk: ServerSdk;
  readonly served: ServedAgent;
  /** Keeps the conversations of one client from those of others. */
  readonly scope: string;
  /** Whether each call has a stream of its own, which only a response ends: a cancelled call gets one, too. Default false. */
  readonly streamsCalls?: boolean;
}

/** One client, from its connection to its end. */
export interface ClientSession {
  readonly server: Server;
  connect(transport: Transport): Promise<void>;
  /** Whether turns run. */
  readonly isBusy: boolean;
  /** Cancels its turns, and resolves once they are over. */
  close(): Promise<void>;
}

/** Answers one client: what tools there are, and their calls. */
export function clientSession({ sdk, served, scope, streamsCalls = false }: ClientSessionOptions): ClientSession {
  const { agent, toolName } = served;
  const { types } = sdk;
  const running = new Set<Promise<unknown>>();
  const closing = new AbortController();
  const server = new sdk.Server({ name: agent.name, version: '1' }, { capabilities: { tools: {} } });
  const outputSchema = outputJsonSchema(agent.options.output?.schema ?? agent.options.outputSchema);
  server.setRequestHandler(types.ListToolsRequestSchema, () => ({ tools: [toolOf(served, outputSchema)] }));
  server.setRequestHandler(types.CallToolRequestSchema, async ({ params }, extra) => {
    if (params.name !== toolName)
      throw new types.McpError(types.ErrorCode.InvalidParams, `there is no tool "${params.name}"`);
    const { message, conversation } = argumentsOf(params.arguments);
    if (message === undefined || conversation === null)
      return failedCall('message must be a string that is not empty, conversation a string.');
    if (served.turns >= served.maxTurns) return failedCall('Too many turns run; try again later.');
    served.turns++;
    const endStream = () => {
      const error = { code: requestCancelled, message: 'The call was cancelled.' };
      // Where the connection is gone there is no stream to end.
      server.transport?.send({ jsonrpc: '2.0', id: extra.requestId, error }).catch(() => {});
    };
    if (streamsCalls) extra.signal.addEventListener('abort', endStream, { once: true });
    const turn = runTurn({
      sdk,
      served,
      message,
      contextId: conversation === undefined ? crypto.randomUUID() : `mcp:${scope}:${conversation}`,
      hasOutput: outputSchema !== undefined,
      client: {
        capabilities: server.getClientCapabilities() ?? {},
        meta: extra._meta ?? {},
        signal: AbortSignal.any([extra.signal, closing.signal]),
        notify: (notification) => extra.sendNotification(notification),
        request: (request, schema, options) => extra.sendRequest(request, schema, options),
      },
    });
    running.add(turn);
    try {
      return await turn;
    } finally {
      extra.signal.removeEventListener('abort', endStream);
      served.turns--;
      running.delete(turn);
    }
  });
  return {
    server,
    connect: (transport) => connectChecked(server, transport, sdk),
    get isBusy() {
      return running.size > 0;
    },
    async close() {
      closing.abort();
      await Promise.allSettled(running);
    },
  };
}

/** As in the Language Server Protocol; MCP names no code. */
const requestCancelled = -32_800;

function toolOf({ agent, toolName }: ServedAgent, outputSchema: Tool['outputSchema']): Tool {
  const { description = `Asks the agent ${agent.name}.` } = agent.options;
  return {
    name: toolName,
    title: agent.name,
    description,
    inputSchema: {
      type: 'object',
      properties: {
        message: { type: 'string', description: 'What to do, with all that is needed to do it.' },
        conversation: {
          type: 'string',
          description:
            'A name of your choice: calls with the same one remember each other. Leave it out for a task of its own.',
        },
      },
      required: ['message'],
    },
    ...(outputSchema && { outputSchema }),
  };
}

interface GivenArguments {
  readonly message: string | undefined;
  /** Null: it is not a string. */
  readonly conversation: string | undefined | null;
}

function argumentsOf(given: Readonly<Record<string, unknown>> = {}): GivenArguments {
  const message = given['message'];
  const conversation = given['conversation'];
  return {
    message: typeof message === 'string' && message.trim() !== '' ? message : undefined,
    conversation: conversation === undefined || typeof conversation === 'string' ? conversation : null,
  };
}

/**
 * Connects a server to its client, and answers requests whose parameters do not fit their method with `InvalidParams`, naming the first
 * member that is wrong. The SDK answers them with an internal error, as if the server had failed.
 */
async function connectChecked(server: Server, transport: Transport, { types }: ServerSdk): Promise<void> {
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

/**
 * The JSON Schema of an agent's values for clients: the schema itself, or that of a Standard Schema's output. Undefined where the agent
 * ends with text, and where the schema cannot tell, or describes no object: values are texts then.
 */
function outputJsonSchema(schema: AgentSettings['outputSchema']): Tool['outputSchema'] {
  if (schema === undefined) return undefined;
  const described: unknown = '~standard' in schema ? givenOut(schema['~standard']) : schema;
  return isObjectSchema(described) ? described : undefined;
}

function givenOut(standard: unknown): unknown {
  if (typeof standard !== 'object' || standard === null || !('jsonSchema' in standard)) return undefined;
  const { jsonSchema } = standard;
  if (typeof jsonSchema !== 'object' || jsonSchema === null || !('output' in jsonSchema)) return undefined;
  try {
    return typeof jsonSchema.output === 'function' ? jsonSchema.output({ target: 'draft-2020-12' }) : undefined;
  } catch {
    return undefined;
  }
}

function isObjectSchema(value: unknown): value is NonNullable<Tool['outputSchema']> {
  return typeof value === 'object' && value !== null && 'type' in value && value.type === 'object';
}

import type { Server } from '@modelcontextprotocol/sdk/server/index.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { Tool } from '@modelcontextprotocol/sdk/types.js';
import type { ServerSdk } from '../load-sdk.ts';
import { connectChecked } from './checked-requests.ts';
import { outputJsonSchema } from './output-json-schema.ts';
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

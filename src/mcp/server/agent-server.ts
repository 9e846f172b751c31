import type {
  CallToolResult,
  ElicitResult,
  InputRequiredResult,
  JSONRPCRequest,
  Server,
  ServerContext,
  StandardSchemaV1Sync,
  Transport,
} from '@modelcontextprotocol/server';
import { AbortScope, onAbort } from '../../core/streams/index.ts';
import { ownerGroup } from '../../owner-group.ts';
import type { ServerSdk } from '../load-sdk.ts';
import { answersIn, askClient, type CallingClient, inputRequestsFor } from './ask-client.ts';
import { type Asked, failedCall, type TurnOfCall, turnOfCall } from './call-turn.ts';
import type { RequestStates } from './request-state.ts';
import { argumentsOf, type ServedAgent, toolOf } from './served-agent.ts';

/** The calls of a connection, a session, or all requests of a listener. */
export class OpenCalls {
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<unknown>>();

  /** Aborted when they are to end. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  get isBusy(): boolean {
    return this.#running.size > 0;
  }

  async track<T>(call: Promise<T>): Promise<T> {
    this.#running.add(call);
    try {
      return await call;
    } finally {
      this.#running.delete(call);
    }
  }

  /** Cancels their turns, and resolves once they are over. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.allSettled(this.#running);
  }
}

/** The turns of each caller of a listener, and how many one may have. Memory: the callers that have some. */
export class CallerTurns {
  readonly #most: number;
  readonly #counts = new Map<string, number>();

  constructor(most: number) {
    this.#most = most;
  }

  isFull(caller: string): boolean {
    return (this.#counts.get(caller) ?? 0) >= this.#most;
  }

  /** Counts a turn until the function that it gives is called. */
  enter(caller: string): () => void {
    this.#counts.set(caller, (this.#counts.get(caller) ?? 0) + 1);
    return () => {
      const left = (this.#counts.get(caller) ?? 1) - 1;
      if (left === 0) this.#counts.delete(caller);
      else this.#counts.set(caller, left);
    };
  }
}

export interface AgentServerOptions {
  readonly sdk: ServerSdk;
  readonly served: ServedAgent;
  readonly states: RequestStates;
  readonly calls: OpenCalls;
  /** Whether it serves a client of 2026-07-28, whose questions end the call, or one of before. */
  readonly era: 'legacy' | 'modern';
  /** Whose calls they are: conversations and artifacts of one scope are unknown to others. */
  readonly scope: string;
  /** Limits the turns of each caller. Absent where there is one client only. */
  readonly callerTurns?: CallerTurns;
  /** Whose turns are counted together. Default: `scope`. */
  readonly caller?: string;
  /** Whether each call has a stream of its own, which only a response ends: a cancelled call gets one, too. Default false. */
  readonly streamsCalls?: boolean;
}

/** Makes a server of the SDK: it lists the tool of the agent, and answers calls of it. */
export function agentServer(options: AgentServerOptions): Server {
  const { sdk, served, era } = options;
  const tool = toolOf(served);
  const server = new sdk.Server({ name: served.agent.name, version: '1' }, { capabilities: { tools: {} } });
  server.setRequestHandler('tools/list', () => ({ tools: [tool] }));
  server.setRequestHandler('tools/call', ({ params }, context) => {
    if (params.name !== tool.name) throw new sdk.ProtocolError(sdk.INVALID_PARAMS, `there is no tool "${params.name}"`);
    return answer({ ...options, server, context, hasOutput: tool.outputSchema !== undefined }, params.arguments ?? {});
  });
  if (era === 'legacy') checkParameters(server, sdk);
  return server;
}

interface Call extends AgentServerOptions {
  readonly server: Server;
  readonly context: ServerContext;
  readonly hasOutput: boolean;
}

async function answer(
  call: Call,
  given: Readonly<Record<string, unknown>>,
): Promise<CallToolResult | InputRequiredResult> {
  const { served, calls, scope, context, callerTurns, caller = scope } = call;
  const { signal } = context.mcpReq;
  const args = argumentsOf(given);
  if (!args) return failedCall('message must be a string that is not empty, conversation a string.');
  const { message, conversation } = args;
  const bound = [context.mcpReq.method, served.toolName, given, scope];
  const waiting = call.era === 'modern' ? await call.states.read(bound, context) : undefined;
  if (served.turns >= served.maxTurns) return failedCall('Too many turns run; try again later.');
  if (callerTurns?.isFull(caller)) return failedCall('Too many of your turns run; wait until one is over.');
  const endStream = () => endOfStream(call);
  const stopListening = call.streamsCalls ? onAbort(signal, endStream) : undefined;
  const over = new AbortScope();
  for (const end of [signal, calls.closing]) over.follow(end);
  const client = clientOf(call, over.signal);
  if (waiting) served.waiting.remove(waiting.taskId);
  served.turns++;
  const leave = callerTurns?.enter(caller);
  try {
    return await calls.track(
      turnOfCall({
        served,
        client,
        message,
        group: `mcp.${ownerGroup('millrace.mcp', served.agent.id, scope)}`,
        conversation,
        hasOutput: call.hasOutput,
        waiting,
        ask: call.era === 'modern' ? asksByResult(call, client, bound) : asksInCall(call, client),
      }),
    );
  } finally {
    stopListening?.();
    over.release();
    served.turns--;
    leave?.();
  }
}

function clientOf({ sdk, era, server, context }: Call, signal: AbortSignal): CallingClient {
  const { envelope = {}, _meta = {} } = context.mcpReq;
  const declared: unknown = Reflect.get(envelope, sdk.CLIENT_CAPABILITIES_META_KEY);
  const ofCall = parsedAs(sdk.specTypeSchemas.ClientCapabilities, declared);
  return {
    capabilities: (era === 'modern' ? ofCall : server.getClientCapabilities()) ?? {},
    meta: _meta,
    signal,
    notify: (notification) => context.mcpReq.notify(notification),
    elicit: (params, options): Promise<ElicitResult> =>
      context.mcpReq.send({ method: 'elicitation/create', params }, options),
  };
}

/** The user is asked while the call is open. */
function asksInCall({ served }: Call, client: CallingClient): TurnOfCall['ask'] {
  return async (questions): Promise<Asked> => {
    const answers = await askClient(questions, client, served.answerTimeoutMs);
    return answers && { answers };
  };
}

/** The call ends with the questions. The client repeats it with the answers, in any process that has the key. */
function asksByResult(
  { sdk, served, context, states }: Call,
  client: CallingClient,
  bound: unknown,
): TurnOfCall['ask'] {
  const given = new Map<string, ElicitResult>();
  for (const [id, response] of Object.entries(context.mcpReq.inputResponses ?? {})) {
    const result = parsedAs(sdk.specTypeSchemas.ElicitResult, response);
    if (result) given.set(id, result);
  }
  return async (questions, waiting): Promise<Asked> => {
    const answers = answersIn(given, questions, client.capabilities);
    given.clear();
    if (answers === undefined) return undefined;
    if (Object.keys(answers).length > 0) return { answers };
    const inputRequests = inputRequestsFor(questions, client.capabilities);
    if (inputRequests === undefined || client.signal.aborted) return undefined;
    const requestState = await states.write(waiting, bound, context);
    served.waiting.add(waiting.taskId);
    return { result: { resultType: 'input_required', inputRequests, requestState } };
  };
}

function parsedAs<T>(schema: StandardSchemaV1Sync<unknown, T>, value: unknown): T | undefined {
  const checked = schema['~standard'].validate(value);
  return checked.issues ? undefined : checked.value;
}

/** As in the Language Server Protocol; MCP names no code. */
const requestCancelled = -32_800;

/** Where the connection is gone there is no stream to end. */
function endOfStream({ server, context }: Call): void {
  const error = { code: requestCancelled, message: 'The call was cancelled.' };
  server.transport?.send({ jsonrpc: '2.0', id: context.mcpReq.id, error }).catch(() => {});
}

/**
 * Answers requests whose parameters do not fit their method with `InvalidParams`, naming the first member that is wrong. The SDK answers
 * most of them with an internal error, as if the server had failed.
 */
function checkParameters(server: Server, { specTypeSchemas, isJSONRPCRequest, INVALID_PARAMS }: ServerSdk): void {
  const schemas: Readonly<Record<string, StandardSchemaV1Sync>> = {
    initialize: specTypeSchemas.InitializeRequest,
    ping: specTypeSchemas.PingRequest,
    'tools/list': specTypeSchemas.ListToolsRequest,
    'tools/call': specTypeSchemas.CallToolRequest,
  };
  const problemOf = (request: JSONRPCRequest): string | undefined => {
    const schema = Object.hasOwn(schemas, request.method) ? schemas[request.method] : undefined;
    const [issue] = schema?.['~standard'].validate(request).issues ?? [];
    if (!issue) return undefined;
    const path = (issue.path ?? []).map((each) => String(typeof each === 'object' ? each.key : each));
    return `${path.join('.') || 'The request'}: ${issue.message}`;
  };
  const connect = server.connect.bind(server);
  server.connect = async (transport: Transport) => {
    await connect(transport);
    const receive = transport.onmessage;
    transport.onmessage = (message, extra) => {
      const problem = isJSONRPCRequest(message) ? problemOf(message) : undefined;
      if (problem === undefined || !isJSONRPCRequest(message)) return receive?.(message, extra);
      const error = { code: INVALID_PARAMS, message: problem };
      // A client that is gone needs no answer.
      transport.send({ jsonrpc: '2.0', id: message.id, error }).catch(() => {});
    };
  };
}

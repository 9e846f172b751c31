import type { Server } from '@modelcontextprotocol/sdk/server/index.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { CallToolResult, JSONRPCRequest, Tool } from '@modelcontextprotocol/sdk/types.js';
import type { Agent } from '../../agent/agent.ts';
import type { AgentSettings } from '../../agent/agent-options.ts';
import { type AgentEvent, AgentLoopError, isSuspended, partsText } from '../../core/contracts/index.ts';
import type { TurnResult } from '../../core/journal/index.ts';
import type { Turn } from '../../core/turn/index.ts';
import { contextFromCarrier } from '../../observability/trace-carrier.ts';
import type { ServerSdk } from '../load-sdk.ts';
import { askClient, type CallingClient } from './ask-client.ts';

interface ClientSessionOptions {
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

/** An agent, how it is served, and how many of its turns run. */
export interface ServedAgent {
  readonly agent: Agent;
  readonly toolName: string;
  /** Whether turns that nobody answered stay. */
  readonly keepUnanswered: boolean;
  readonly answerTimeoutMs: number;
  readonly maxTurns: number;
  turns: number;
}

interface TurnOfCall {
  readonly sdk: ServerSdk;
  readonly served: ServedAgent;
  readonly message: string;
  readonly contextId: string;
  /** Whether the tool has declared a schema of the value. */
  readonly hasOutput: boolean;
  readonly client: CallingClient;
}

/** Runs a turn for a call: tells its progress, has its questions answered, and gives what it comes to. Never rejects. */
async function runTurn(call: TurnOfCall): Promise<CallToolResult> {
  const { served, message, contextId, client } = call;
  const { agent } = served;
  const shared = { parentContext: contextFromCarrier(client.meta), signal: client.signal };
  const progress = new TurnProgress(client);
  try {
    let turn = agent.startTurn(message, { ...shared, contextId });
    for (;;) {
      const result = await ending(turn, progress);
      if (!isSuspended(result.status)) return answerOf(result, call.hasOutput);
      const answers = await askClient(result.questions, call);
      if (answers === undefined) return await unanswered(result, call);
      turn = agent.resume(turn.taskId, { ...shared, contextId, answers });
    }
  } catch (thrown) {
    return failure(thrown);
  } finally {
    progress.close();
  }
}

async function ending(turn: Turn, progress: TurnProgress): Promise<TurnResult> {
  const reading = turn.subscribe({ next: (event) => progress.show(event), error: () => {} });
  try {
    return await turn.result();
  } finally {
    reading.unsubscribe();
  }
}

function answerOf({ text, value, taskId }: TurnResult, hasOutput: boolean): CallToolResult {
  const _meta = { 'millrace/task-id': taskId };
  if (value === undefined) return { content: [{ type: 'text', text }], _meta };
  const json = JSON.stringify(value);
  const content = [{ type: 'text' as const, text: json }];
  const structured: unknown = JSON.parse(json);
  return hasOutput && isRecord(structured) ? { content, structuredContent: structured, _meta } : { content, _meta };
}

/** Cancels a turn that no other process can resume, and one whose client has cancelled or disconnected. */
async function unanswered({ taskId, questions }: TurnResult, { served, client }: TurnOfCall): Promise<CallToolResult> {
  const what = [...new Set(questions.map(({ kind, toolName }) => `${kind} of ${toolName}`))].join(', ') || 'somebody';
  const { aborted } = client.signal;
  if (aborted || !served.keepUnanswered) {
    await served.agent.cancel(taskId, aborted ? 'the client left' : 'nobody answered').catch(() => {});
    return failedCall(`The agent needs an answer that it did not get (${what}).`, taskId);
  }
  return failedCall(
    `The agent waits for an answer that this client did not give (${what}); its task is ${taskId}.`,
    taskId,
  );
}

/** The code alone: what an error says may be nobody's business. */
function failure(thrown: unknown): CallToolResult {
  const code = AgentLoopError.isInstance(thrown) ? thrown.code : 'INTERNAL';
  const taskId = AgentLoopError.isInstance(thrown) ? thrown.taskId : undefined;
  if (code === 'AGENT_BUSY')
    return failedCall('Another call of this conversation still runs; wait for it, or use another one.', taskId);
  return failedCall(`The agent could not finish (${code}).`, taskId);
}

/** A call that failed, in words for the client's model. */
function failedCall(text: string, taskId?: string): CallToolResult {
  const _meta = taskId === undefined ? {} : { _meta: { 'millrace/task-id': taskId } };
  return { isError: true, content: [{ type: 'text', text }], ..._meta };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A client may give up on a call that says nothing for a minute. */
const heartbeatMs = 15_000;
/** Between two notifications of text that streams. */
const textMs = 500;
const maxLength = 120;

/** Tells a client what a turn does, where it asked for that: tools as they start and end, the text as it grows, and that there is life. */
class TurnProgress {
  readonly #client: CallingClient;
  readonly #heartbeat: NodeJS.Timeout | undefined;
  #count = 0;
  #text = '';
  #textAt = 0;

  constructor(client: CallingClient) {
    this.#client = client;
    if (client.meta.progressToken !== undefined)
      this.#heartbeat = setInterval(() => this.#send('still at work'), heartbeatMs);
  }

  show(event: AgentEvent): void {
    if (this.#heartbeat === undefined) return;
    if (event.kind === 'artifact-update') return this.#grow(event);
    const message = messageOf(event);
    if (message !== undefined) this.#send(message);
  }

  close(): void {
    clearInterval(this.#heartbeat);
  }

  #grow({ append, artifact }: Extract<AgentEvent, { kind: 'artifact-update' }>): void {
    const text = partsText(artifact.parts);
    this.#text = (append ? this.#text + text : text).slice(-maxLength);
    const now = performance.now();
    if (this.#text.trim() === '' || now - this.#textAt < textMs) return;
    this.#textAt = now;
    this.#send(this.#text);
  }

  /** A client that is gone needs to know nothing. */
  #send(message: string): void {
    this.#heartbeat?.refresh();
    const { progressToken } = this.#client.meta;
    if (progressToken === undefined) return;
    const params = { progressToken, progress: ++this.#count, message };
    this.#client.notify({ method: 'notifications/progress', params }).catch(() => {});
  }
}

/** Names of tools, never what they are given, or give. */
function messageOf(event: AgentEvent): string | undefined {
  switch (event.kind) {
    case 'internal:tool-start':
      return `${event.toolName} runs`;
    case 'internal:tool-complete':
      return event.success ? `${event.toolName} is done` : `${event.toolName} failed`;
    case 'internal:iteration-start':
      return event.iteration === 1 ? 'begins' : `step ${event.iteration}`;
    default:
      event.kind satisfies
        | 'task'
        | 'status-update'
        | 'artifact-update'
        | 'internal:iteration-complete'
        | 'internal:llm-call'
        | 'internal:llm-response'
        | 'internal:llm-attempt-discarded'
        | 'internal:reasoning-delta'
        | 'internal:tool-call-delta'
        | 'internal:tool-progress'
        | 'internal:checkpoint'
        | 'internal:paused'
        | 'internal:resumed'
        | 'internal:sub-agent'
        | 'internal:extension-error'
        | `internal:x.${string}`;
      return undefined;
  }
}

import { AsyncLocalStorage } from 'node:async_hooks';
import { pathToFileURL } from 'node:url';
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type { RequestOptions } from '@modelcontextprotocol/sdk/shared/protocol.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type {
  CallToolRequest,
  CallToolResult,
  ClientCapabilities,
  ElicitRequest,
  ElicitResult,
  Tool,
} from '@modelcontextprotocol/sdk/types.js';
import { AgentLoopError, shownValue } from '../core/contracts/index.ts';
import type { SecretWords } from './call-failure.ts';
import type { ClientSdk } from './load-sdk.ts';
import { isHttp, type McpServerOptions } from './mcp-options.ts';
import type { OpenCall } from './open-call.ts';
import { answerSampling } from './sampling.ts';
import { ChildTransport, httpTransport } from './transports.ts';

interface ConnectionOptions {
  readonly sdk: ClientSdk;
  readonly server: McpServerOptions;
  readonly secrets: SecretWords;
  readonly connectTimeoutMs: number;
  /** How long a server may be silent. */
  readonly idleMs: number;
  readonly onToolsChanged: () => void;
  /** Called once, however the connection ended. */
  readonly onClosed: () => void;
}

const longestPingMs = 5_000;
const farewellMs = 1_000;
/** The limits of calls are our own. The longest that a timer can be. */
const noTimeout = 2_147_483_647;

/** One session with one server, from its handshake to its end. It is never taken up again: another one takes its place. */
export class McpConnection {
  readonly client: Client;
  readonly transport: Transport;
  /** Whether a call was answered. */
  proven = false;
  readonly #options: ConnectionOptions;
  readonly #calls = new Set<OpenCall>();
  /** The call on whose stream a message of the server came: over HTTP each call has its own. */
  readonly #origin = new AsyncLocalStorage<OpenCall>();
  #closed = false;
  #probe: Promise<void> | undefined;
  #flaw: string | undefined;
  /** Called when a call has settled or waits. */
  #onFewer: (() => void) | undefined;

  constructor(options: ConnectionOptions) {
    const { sdk, server } = options;
    this.#options = options;
    this.client = new sdk.Client(clientInfo, { capabilities: capabilitiesOf(server) });
    this.transport = isHttp(server)
      ? httpTransport({
          sdk,
          server,
          onHeaders: (headers) => options.secrets.addHeaders(headers),
          onStreamEnd: (resumable) => this.#brokenOff(resumable),
          onTooLarge: ({ message }) => this.#leaveFor(message),
        })
      : new ChildTransport(sdk, server);
    this.#handleRequests();
    this.client.onclose = () => {
      const { flaw } = this;
      if (flaw !== undefined) for (const call of [...this.#calls]) call.leave({ kind: 'too-large', what: flaw });
      if (this.#closed) return;
      this.#closed = true;
      options.onClosed();
    };
  }

  /** Starts the server where it is a process, and shakes hands. Rejects with what the SDK or the system says; nothing is left open then. */
  async open(): Promise<void> {
    const { connectTimeoutMs: timeout } = this.#options;
    let timer: NodeJS.Timeout | undefined;
    // The SDK sets no limit to the last message of a handshake.
    const late = new Promise<never>((_resolve, reject) => {
      const error = new AgentLoopError('TOOL_TIMEOUT', 'did not answer in time');
      timer = setTimeout(() => reject(error), timeout);
    });
    try {
      await Promise.race([this.client.connect(this.transport, { timeout }), late]);
    } catch (error) {
      await this.transport.close().catch(() => {});
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** The running ping that checks whether the server is alive. */
  get probing(): Promise<void> | undefined {
    return this.#probe;
  }

  /** The version that both sides agreed on. */
  get protocolVersion(): string | undefined {
    const { transport } = this;
    const knows =
      transport instanceof ChildTransport || transport instanceof this.#options.sdk.StreamableHTTPClientTransport;
    return knows ? transport.protocolVersion : undefined;
  }

  /** The end of what a server that is a process has written to stderr. */
  get stderrTail(): string {
    return this.transport instanceof ChildTransport ? this.transport.stderrTail : '';
  }

  /** Why we left a server that sent too much. */
  get flaw(): string | undefined {
    return this.transport instanceof ChildTransport ? this.transport.flaw : this.#flaw;
  }

  /** What the server has. */
  async listTools(): Promise<ListedTools> {
    if (!this.client.getServerCapabilities()?.tools) return { tools: [], flawed: [] };
    return listTools(this.client, { types: this.#options.sdk.types, timeout: this.#options.connectTimeoutMs });
  }

  /** Sends a tool call, as a task where the tool wants that. */
  async callTool(
    params: CallToolRequest['params'],
    { call, signal, asTask }: { readonly call: OpenCall; readonly signal: AbortSignal; readonly asTask: boolean },
  ): Promise<CallToolResult> {
    const options = { signal, timeout: noTimeout, onprogress: call.progressed.bind(call) };
    this.#calls.add(call);
    try {
      const result = await this.#origin.run(call, () =>
        asTask
          ? this.#runTask(params, options)
          : this.client.request(
              { method: 'tools/call', params },
              this.#options.sdk.types.CallToolResultSchema,
              options,
            ),
      );
      this.proven = true;
      return result;
    } finally {
      this.#calls.delete(call);
      this.#onFewer?.();
    }
  }

  async #runTask(
    params: CallToolRequest['params'],
    options: RequestOptions & { readonly signal: AbortSignal },
  ): Promise<CallToolResult> {
    const { tasks } = this.client.experimental;
    const { CallToolResultSchema } = this.#options.sdk.types;
    const request = { method: 'tools/call' as const, params };
    let taskId: string | undefined;
    const cancel = () => {
      if (taskId !== undefined) tasks.cancelTask(taskId).catch(() => {});
    };
    options.signal.addEventListener('abort', cancel, { once: true });
    for await (const step of tasks.requestStream(request, CallToolResultSchema, { ...options, task: {} })) {
      if (step.type === 'taskCreated') taskId = step.task.taskId;
      if (step.type === 'result') return step.result;
      if (step.type === 'error') throw step.error;
    }
    throw new AgentLoopError('TOOL_FAILED', 'ended the task without a result');
  }

  /** Finds out whether the server is still there, and closes the connection if it is not. Never rejects. */
  probe(): Promise<void> {
    this.#probe ??= this.client
      .ping({ timeout: Math.min(this.#options.idleMs, longestPingMs) })
      .then(
        () => {},
        () => this.close(),
      )
      .finally(() => {
        this.#probe = undefined;
      });
    return this.#probe;
  }

  /** Says goodbye, and ends the server where it is a process of ours. Never rejects. */
  async close(): Promise<void> {
    const { sdk } = this.#options;
    if (!this.#closed && this.transport instanceof sdk.StreamableHTTPClientTransport) {
      const farewell = this.transport.terminateSession().catch(() => {});
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, farewellMs);
      });
      await Promise.race([farewell, late]);
      clearTimeout(timer);
    }
    await this.transport.close().catch(() => {});
  }

  #handleRequests(): void {
    const { sdk, server, onToolsChanged } = this.#options;
    const { types } = sdk;
    this.client.setNotificationHandler(types.ToolListChangedNotificationSchema, onToolsChanged);
    if (server.elicitation !== false) {
      this.client.setRequestHandler(types.ElicitRequestSchema, ({ params }, { signal }) =>
        this.#elicit(params, signal),
      );
    }
    const { sampling, roots } = server;
    if (sampling) {
      this.client.setRequestHandler(types.CreateMessageRequestSchema, async ({ params }, { signal }) => {
        const call = await this.#callOf(signal);
        if (!call) throw new types.McpError(types.ErrorCode.InvalidRequest, 'no tool call is running');
        return answerSampling(params, { sdk, sampling, call, signal: AbortSignal.any([signal, call.signal]) });
      });
    }
    if (roots) {
      const list = {
        roots: roots.map((root) => ({ uri: root.startsWith('file:') ? root : pathToFileURL(root).href })),
      };
      this.client.setRequestHandler(types.ListRootsRequestSchema, () => list);
    }
  }

  async #elicit(params: ElicitRequest['params'], signal: AbortSignal): Promise<ElicitResult> {
    const call = await this.#callOf(signal);
    if (!call) return { action: 'cancel' };
    const answer = call.ask(params, signal);
    this.#onFewer?.();
    return answer;
  }

  /**
   * The call that a request of the server belongs to. Over stdio nothing says so: there it is the only one that runs, and where several do
   * the request waits until it is; a second one that waits is refused, as the two could not be distinguished. None for a call that has ended.
   */
  async #callOf(signal: AbortSignal): Promise<OpenCall | undefined> {
    const known = this.#origin.getStore();
    if (known) return known.isSettled ? undefined : known;
    if (this.#onFewer) return undefined;
    for (;;) {
      const running = [...this.#calls].filter((call) => !call.isWaiting && !call.isSettled);
      if (running.length <= 1 || signal.aborted) return signal.aborted ? undefined : running[0];
      await new Promise<void>((resolve) => {
        this.#onFewer = resolve;
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
      this.#onFewer = undefined;
    }
  }

  /** The server sent too much: in the answer of a call, or else beside all calls. */
  #leaveFor(flaw: string): void {
    const call = this.#origin.getStore();
    if (call) return call.leave({ kind: 'too-large', what: flaw });
    this.#flaw = flaw;
    void this.close();
  }

  #brokenOff(resumable: boolean): void {
    const call = this.#origin.getStore();
    if (!call || call.isSettled) return;
    if (resumable) return void this.probe();
    call.leave({ kind: 'lost', what: 'broke off its answer' });
  }
}

const clientInfo = { name: 'millrace', version: '1' };

function capabilitiesOf({ elicitation, sampling, roots }: McpServerOptions): ClientCapabilities {
  return {
    ...(elicitation !== false && { elicitation: { form: {}, url: {} } }),
    ...(sampling && { sampling: {} }),
    ...(roots && { roots: {} }),
  };
}

/** What a server answers where it is asked for its tools. */
interface ListedTools {
  readonly tools: readonly Tool[];
  /** What stands among them and is no tool of the protocol. */
  readonly flawed: readonly FlawedTool[];
}

interface FlawedTool {
  /** Undefined where it says none. */
  readonly name: string | undefined;
  /** As the rest of a sentence. */
  readonly why: string;
}

interface ListToolsOptions {
  readonly types: ClientSdk['types'];
  /** For each page. Milliseconds. */
  readonly timeout: number;
}

const maxPages = 100;

/** All pages of a server's tools. One that the protocol does not allow takes nothing from the others. */
async function listTools(client: Client, { types, timeout }: ListToolsOptions): Promise<ListedTools> {
  const tools: Tool[] = [];
  const flawed: FlawedTool[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < maxPages; page++) {
    const request = { method: 'tools/list' as const, params: cursor === undefined ? {} : { cursor } };
    const answer = await client.request(request, types.PaginatedResultSchema, { timeout });
    for (const each of listIn(answer, types)) {
      const parsed = types.ToolSchema.safeParse(each);
      if (parsed.success) tools.push(parsed.data);
      else flawed.push(flawOf(each, parsed.error.issues[0]?.path ?? []));
    }
    cursor = answer.nextCursor;
    if (cursor === undefined) return { tools, flawed };
  }
  throw new AgentLoopError('TOOL_FAILED', `gives a list of tools that does not end after ${maxPages} pages`);
}

/** Throws the error of the SDK if the response has no tools. */
function listIn(answer: Readonly<Record<string, unknown>>, types: ClientSdk['types']): readonly unknown[] {
  const { tools } = answer;
  return Array.isArray(tools) ? tools : types.ListToolsResultSchema.parse(answer).tools;
}

function flawOf(tool: unknown, path: readonly PropertyKey[]): FlawedTool {
  if (typeof tool !== 'object' || tool === null) return { name: undefined, why: `it is ${shownValue(tool)}, no tool` };
  const name: unknown = Reflect.get(tool, 'name');
  return {
    name: typeof name === 'string' ? name : undefined,
    why: `the protocol does not allow its ${path.map(String).join('.')}`,
  };
}

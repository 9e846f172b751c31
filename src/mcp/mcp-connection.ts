import { AsyncLocalStorage } from 'node:async_hooks';
import type {
  CallToolRequest,
  CallToolResult,
  Client,
  ClientCapabilities,
  ElicitRequest,
  ElicitResult,
  FetchLike,
  JSONRPCMessage,
  McpSubscription,
  PriorDiscovery,
  Tool,
  Transport,
  VersionNegotiationOptions,
} from '@modelcontextprotocol/client';
import { AgentLoopError, systemClock } from '../core/contracts/index.ts';
import { settled, within } from '../core/streams/index.ts';
import type { Failure, SecretWords } from './call-failure.ts';
import type { ClientSdk } from './load-sdk.ts';
import { defaultProtocol, isHttp, type McpHttpOptions, type McpServerOptions } from './mcp-options.ts';
import type { CallResult, OpenCall } from './open-call.ts';
import { rootsOf } from './question-rounds.ts';
import { answerSampling, invalidRequest } from './sampling.ts';
import { isOAuth } from './sign-in/auth-options.ts';
import type { HttpAuth } from './sign-in/http-auth.ts';
import { ProviderSignIn } from './sign-in/provider-sign-in.ts';
import { signInRequests } from './sign-in/sign-in-fetch.ts';
import { StoredSignIn } from './sign-in/stored-sign-in.ts';
import { callAsTask } from './task-call.ts';
import { type ListedTools, listTools } from './tool-list.ts';
import { ChildTransport, httpTransport } from './transports.ts';

interface ConnectionOptions {
  readonly sdk: ClientSdk;
  readonly server: McpServerOptions;
  readonly secrets: SecretWords;
  readonly connectTimeoutMs: number;
  /** How long a server may be silent. */
  readonly idleMs: number;
  /** What is known of the server's revision, so that it need not be asked for. */
  readonly prior: PriorDiscovery | undefined;
  /** Whether a process gets all of `connectTimeoutMs` for the answer to what it speaks. */
  readonly isPatient: boolean;
  readonly onToolsChanged: () => void;
  /** Called once, however the connection ended. */
  readonly onClosed: () => void;
}

const longestPingMs = 5_000;
const farewellMs = 1_000;
const longestListenMs = 5_000;
/** How long a process may be silent before it is taken for one that only speaks revisions before 2026-07-28. */
const longestProbeMs = 5_000;
/** The limits of calls are our own. The longest that a timer can be. */
const noTimeout = 2_147_483_647;

/** One session with one server, from its handshake to its end. It is never taken up again: another one takes its place. */
export class McpConnection {
  readonly client: Client;
  readonly transport: Transport;
  /** Whether a call was answered. */
  proven = false;
  /** Whether the server speaks 2026-07-28 and said so after it was spoken to as one that does not: it may refuse all that follows. */
  isSlow = false;
  readonly #options: ConnectionOptions;
  readonly #auth: HttpAuth | undefined;
  readonly #calls = new Set<OpenCall>();
  /** The call on whose stream a message of the server came: over HTTP each call has its own. */
  readonly #origin = new AsyncLocalStorage<OpenCall>();
  #closed = false;
  #leaving = false;
  #probe: Promise<void> | undefined;
  #flaw: Failure | undefined;
  #subscription: McpSubscription | undefined;
  readonly #taskProgress = new Map<string | number, OpenCall>();
  #tasks = 0;
  /** Called when a call has settled or waits. */
  #onFewer: (() => void) | undefined;

  constructor(options: ConnectionOptions) {
    const { sdk, server } = options;
    this.#options = options;
    this.client = new sdk.Client(clientInfo, {
      capabilities: capabilitiesOf(server),
      versionNegotiation: negotiationOf(options),
      // A question would keep the call open, and be lost with this process.
      inputRequired: { autoFulfill: false },
    });
    this.#auth = isHttp(server) ? authOf(server, options) : undefined;
    this.transport = isHttp(server)
      ? httpTransport({
          sdk,
          server,
          auth: this.#auth,
          fetch: fetchOf(server, sdk),
          onHeaders: (headers) => options.secrets.addHeaders(headers),
          onStreamEnd: (resumable) => this.#brokenOff(resumable),
          onFlaw: (flaw) => this.#leaveFor(flaw),
        })
      : new ChildTransport(sdk, server);
    this.transport.onmessage = (message) => this.#noteTaskProgress(message);
    this.#handleRequests();
    this.client.onclose = () => {
      const { flaw } = this;
      if (flaw !== undefined) for (const call of [...this.#calls]) call.leave(flaw);
      if (this.#closed) return;
      this.#closed = true;
      options.onClosed();
    };
  }

  /** Starts the server where it is a process, and agrees on a revision. Rejects with what the SDK or the system says; nothing is left open then. */
  async open(): Promise<void> {
    const { connectTimeoutMs: timeout, prior } = this.#options;
    const late = () => new AgentLoopError('TOOL_TIMEOUT', `did not answer within ${timeout} ms (connectTimeoutMs)`);
    const slow = new AbortController();
    if (this.transport instanceof ChildTransport)
      this.transport.onLateDiscovery = () => {
        this.isSlow = true;
        slow.abort(new AgentLoopError('TOOL_TIMEOUT', 'answered server/discover late'));
      };
    try {
      // The SDK sets no limit to the last message of a handshake.
      await within({ ms: timeout, clock: systemClock, signal: slow.signal, late }, () =>
        this.client.connect(this.transport, { timeout, ...(prior && { prior }) }),
      );
    } catch (error) {
      await this.transport.close().catch(() => {});
      throw error;
    }
  }

  /** The sign-in of this connection, where this package does it. */
  get signIn(): StoredSignIn | undefined {
    return this.#auth instanceof StoredSignIn ? this.#auth : undefined;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** The running ping that checks whether the server is alive. */
  get probing(): Promise<void> | undefined {
    return this.#probe;
  }

  /** The revision that both sides agreed on. */
  get protocolVersion(): string | undefined {
    return this.client.getNegotiatedProtocolVersion();
  }

  /** Whether each request is complete in itself, without a session (2026-07-28 and later). */
  get isModern(): boolean {
    return this.client.getProtocolEra() === 'modern';
  }

  /** What the next connection need not ask for. */
  get verdict(): PriorDiscovery {
    const discover = this.client.getDiscoverResult();
    return discover ? { kind: 'modern', discover } : { kind: 'legacy' };
  }

  /** Whether the server was a process that ended by itself. */
  get hasExited(): boolean {
    return this.transport instanceof ChildTransport && this.transport.hasExited;
  }

  /** The end of what a server that is a process has written to stderr. */
  get stderrTail(): string {
    return this.transport instanceof ChildTransport ? this.transport.stderrTail : '';
  }

  /** Why we left a server that sent what it may not. */
  get flaw(): Failure | undefined {
    return this.transport instanceof ChildTransport ? this.transport.flaw : this.#flaw;
  }

  /** What the server has. */
  async listTools(): Promise<ListedTools> {
    if (!this.client.getServerCapabilities()?.tools) return { tools: [], flawed: [], ttlMs: undefined };
    const { sdk, connectTimeoutMs: timeout, server } = this.#options;
    const hasHeaders = this.isModern && isHttp(server);
    return listTools(this.client, { schemas: sdk.specTypeSchemas, timeout, hasHeaders });
  }

  /** Whether the server tells of changes of its tools. Up to 2025-11-25 it is trusted to do so unasked. */
  get tellsChanges(): boolean {
    return !this.isModern || this.#subscription !== undefined;
  }

  /** Asks a server of 2026-07-28 to tell of changes of its tools, where it can. Never rejects. */
  async listenForChanges(): Promise<void> {
    const { tools } = this.client.getServerCapabilities() ?? {};
    if (this.tellsChanges || tools?.listChanged !== true) return;
    const { connectTimeoutMs, onToolsChanged } = this.#options;
    try {
      const timeout = Math.min(connectTimeoutMs, longestListenMs);
      const subscription = await this.client.listen({ toolsListChanged: true }, { timeout });
      this.#subscription = subscription;
      void subscription.closed.then(() => {
        this.#subscription = undefined;
        onToolsChanged();
      });
    } catch {
      // The tools are listed for each turn then.
    }
  }

  /** Sends a tool call, as a task where the tool wants that. */
  async callTool(
    params: CallToolRequest['params'],
    { call, signal, tool }: { readonly call: OpenCall; readonly signal: AbortSignal; readonly tool: Tool },
  ): Promise<CallResult> {
    const onprogress = call.progressed.bind(call);
    const options = { signal, timeout: noTimeout, onprogress, allowInputRequired: true };
    this.#calls.add(call);
    try {
      const result = await this.#origin.run(
        call,
        (): Promise<CallResult> =>
          tool.execution?.taskSupport === 'required'
            ? this.#callAsTask(params, { call, signal })
            : // The SDK would check the output in this thread, without a limit of time.
              this.client.callTool(params, { ...options, toolDefinition: { ...tool, outputSchema: undefined } }),
      );
      this.proven = true;
      return result;
    } finally {
      this.#calls.delete(call);
      this.#onFewer?.();
      if (this.#leaving) this.closeWhenIdle();
    }
  }

  async #callAsTask(
    params: CallToolRequest['params'],
    { call, signal }: { readonly call: OpenCall; readonly signal: AbortSignal },
  ): Promise<CallToolResult> {
    if (this.isModern)
      throw new AgentLoopError(
        'TOOL_FAILED',
        'requires this tool to run as a task, which its protocol revision does not support',
      );
    const progressToken = `task-${++this.#tasks}`;
    this.#taskProgress.set(progressToken, call);
    const request = { signal, timeout: noTimeout };
    try {
      const withToken = { ...params, _meta: { ...params._meta, progressToken } };
      return await callAsTask(this.client, withToken, { schemas: this.#options.sdk.specTypeSchemas, request });
    } finally {
      this.#taskProgress.delete(progressToken);
    }
  }

  /** The SDK passes on the progress of a request until its response, and a task has its response at its beginning. */
  #noteTaskProgress(message: JSONRPCMessage): void {
    if (this.#taskProgress.size === 0 || !('method' in message) || message.method !== 'notifications/progress') return;
    const { ProgressNotificationParams } = this.#options.sdk.specTypeSchemas;
    const parsed = ProgressNotificationParams['~standard'].validate(message.params);
    if (parsed.issues) return;
    const { progressToken, ...progress } = parsed.value;
    this.#taskProgress.get(progressToken)?.progressed(progress);
  }

  /** Finds out whether the server is still there, and closes the connection if it is not. Never rejects. */
  probe(): Promise<void> {
    const limit = { timeout: Math.min(this.#options.idleMs, longestPingMs) };
    this.#probe ??= (this.isModern ? this.client.discover(limit) : this.client.ping(limit))
      .then(
        () => {},
        () => this.close(),
      )
      .finally(() => {
        this.#probe = undefined;
      });
    return this.#probe;
  }

  /** Closes once no call runs on it. */
  closeWhenIdle(): void {
    this.#leaving = true;
    if (this.#calls.size === 0) void this.close();
  }

  /** Says goodbye, and ends the server where it is a process of ours. Never rejects. */
  async close(): Promise<void> {
    const { sdk } = this.#options;
    if (!this.#closed && this.transport instanceof sdk.StreamableHTTPClientTransport)
      await settled(farewellMs, systemClock, this.transport.terminateSession());
    await this.transport.close().catch(() => {});
    // A refresh token that was sent is used up: the one in its place must get into the store.
    await this.#auth?.settled();
  }

  #handleRequests(): void {
    const { sdk, server, onToolsChanged } = this.#options;
    this.client.setNotificationHandler('notifications/tools/list_changed', onToolsChanged);
    if (server.elicitation !== false) {
      this.client.setRequestHandler('elicitation/create', ({ params }, { mcpReq }) =>
        this.#elicit(params, mcpReq.signal),
      );
    }
    const { sampling, roots } = server;
    if (sampling) {
      this.client.setRequestHandler('sampling/createMessage', async ({ params }, { mcpReq: { signal } }) => {
        const call = await this.#callOf(signal);
        if (!call) throw new sdk.ProtocolError(invalidRequest, 'no tool call is running');
        return answerSampling(params, { sdk, sampling, call, signal: AbortSignal.any([signal, call.signal]) });
      });
    }
    if (roots) {
      const list = rootsOf(roots);
      this.client.setRequestHandler('roots/list', () => list);
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
  #leaveFor(flaw: Failure): void {
    const call = this.#origin.getStore();
    if (call) return call.leave(flaw);
    this.#flaw = flaw;
    void this.close();
  }

  #brokenOff(resumable: boolean): void {
    const call = this.#origin.getStore();
    if (!call || call.isSettled) return;
    if (resumable && !this.isModern) return void this.probe();
    call.leave({ kind: 'lost', what: 'broke off its answer' });
  }
}

function authOf(server: McpHttpOptions, { sdk, secrets }: ConnectionOptions): HttpAuth | undefined {
  const { auth } = server;
  if (auth === undefined) return undefined;
  if (isOAuth(auth)) return new StoredSignIn({ sdk, server, auth, onToken: (token) => secrets.addToken(token) });
  const { provider } = auth;
  const send = signInRequests(server, () => provider.discoveryState?.());
  return new ProviderSignIn({ sdk, server: new URL(server.url), provider, send });
}

/** With the proofs of a provider that binds tokens to a key (RFC 9449). */
function fetchOf({ auth }: McpHttpOptions, sdk: ClientSdk): FetchLike | undefined {
  if (auth === undefined || isOAuth(auth) || !auth.provider.dpop) return undefined;
  return sdk.withDpopFromProvider(auth.provider)(fetch);
}

const clientInfo = { name: 'millrace', version: '1' };

function capabilitiesOf({ elicitation, sampling, roots }: McpServerOptions): ClientCapabilities {
  return {
    ...(elicitation !== false && { elicitation: { form: {}, url: {} } }),
    ...(sampling && { sampling: {} }),
    ...(roots && { roots: {} }),
  };
}

/** Over HTTP a server that is silent is out of order; a process may be one that passes over what it does not know. */
function negotiationOf({ server, connectTimeoutMs, isPatient }: ConnectionOptions): VersionNegotiationOptions {
  const { protocol = defaultProtocol } = server;
  const isSure = isHttp(server) || protocol !== 'auto' || isPatient;
  const timeoutMs = isSure ? connectTimeoutMs : Math.min(longestProbeMs, connectTimeoutMs / 2);
  return { mode: protocol === '2026-07-28' ? { pin: protocol } : protocol, probe: { timeoutMs } };
}

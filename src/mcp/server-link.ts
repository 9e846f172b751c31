import type { PriorDiscovery } from '@modelcontextprotocol/client';
import { type Attributes, type Context, trace } from '@opentelemetry/api';
import { AgentLoopError, messageOf } from '../core/contracts/index.ts';
import { attribute } from '../observability/attributes.ts';
import { type Failure, failureOf, SecretWords } from './call-failure.ts';
import { type ClientSdk, loadClientSdk } from './load-sdk.ts';
import { McpConnection } from './mcp-connection.ts';
import { defaultProtocol, isHttp, type McpReconnectOptions, type McpServerOptions } from './mcp-options.ts';
import { isOAuth } from './sign-in/auth-options.ts';
import { SignInNeeded, StoredSignIn } from './sign-in/stored-sign-in.ts';

export interface ServerLinkOptions {
  readonly name: string;
  readonly server: McpServerOptions;
  readonly reconnect: McpReconnectOptions;
  /** Called where the server says that its tools are others now, and for each new connection. */
  readonly onToolsChanged: () => void;
}

export const defaultIdleMs = 60_000;
const defaultConnectMs = 30_000;
/** What a server says of its failing start: characters of its stderr. */
const maxStderr = 500;
/** How long a server's revision is remembered. Milliseconds. */
const verdictMs = 600_000;

/**
 * One server, and the way to it: connects when somebody needs that, again where the connection was lost, and not too often where the server
 * cannot be reached or dies without having answered a call.
 */
export class ServerLink {
  readonly name: string;
  readonly server: McpServerOptions;
  readonly secrets: SecretWords;
  readonly #options: ServerLinkOptions;
  readonly #closing = new Set<Promise<void>>();
  #sdk: ClientSdk | undefined;
  #connection: McpConnection | undefined;
  #connecting: Promise<McpConnection> | undefined;
  /** The one whose handshake is under way. */
  #opening: McpConnection | undefined;
  #failures = 0;
  #retryAt = 0;
  #lastError: AgentLoopError | undefined;
  #closed = false;
  /** The revision of the last connection. */
  #verdict: { readonly prior: PriorDiscovery; readonly until: number } | undefined;

  constructor(options: ServerLinkOptions) {
    this.#options = options;
    this.name = options.name;
    this.server = options.server;
    this.secrets = new SecretWords(options.server);
  }

  /** The SDK, loaded once. Rejects with `MISSING_PACKAGE`. */
  async sdk(): Promise<ClientSdk> {
    this.#sdk ??= await loadClientSdk();
    return this.#sdk;
  }

  /** The connection there is. */
  get connection(): McpConnection | undefined {
    return this.#connection;
  }

  /**
   * A connection that works as far as anybody knows. Rejects with `MISSING_PACKAGE`; `SHUTDOWN` once closed; `TOOL_FAILED`, in words for the
   * model, where the server cannot be reached, and at once while it is left alone; with `SignInNeeded`.
   */
  async connected(): Promise<McpConnection> {
    await this.#connection?.probing;
    this.#assertOpen();
    if (this.#connection) return this.#connection;
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = undefined;
      this.#opening = undefined;
    });
    return this.#connecting;
  }

  /** The sign-in that a request failed for, if it did. The next connection begins with what is stored then; running calls of this one end first. */
  signInFor(thrown: unknown, connection: McpConnection): SignInNeeded | undefined {
    const { signIn } = connection;
    if (!this.#sdk || !(thrown instanceof this.#sdk.UnauthorizedError)) return undefined;
    if (signIn?.authorizationUrl === undefined) return undefined;
    if (this.#connection === connection) this.#connection = undefined;
    connection.closeWhenIdle();
    return new SignInNeeded(signIn);
  }

  /** Finishes a sign-in with what the user came back with. Returns why that failed, as the rest of a sentence. */
  async finishSignIn(callback: string): Promise<string | undefined> {
    const { server, secrets } = this;
    if (!isHttp(server) || !isOAuth(server.auth)) return 'this server has no sign-in';
    const onToken = (token: string) => secrets.addToken(token);
    return new StoredSignIn({ sdk: await this.sdk(), server, auth: server.auth, onToken }).finish(callback);
  }

  /** Tells what went wrong with a request. */
  failureOf(thrown: unknown): Failure {
    const { secrets } = this;
    return this.#sdk ? failureOf(thrown, { sdk: this.#sdk, secrets }) : { kind: 'lost', what: messageOf(thrown) };
  }

  /** Does what the connection needs after that: it is closed, or looked after, or nothing. */
  attendTo({ kind }: Failure, connection: McpConnection): void {
    if (kind === 'silent') void connection.probe();
    // An answer that does not suit may come of another revision than the one that is remembered.
    if (kind === 'session-lost' || !connection.proven) this.#verdict = undefined;
    if (kind === 'lost' || kind === 'session-lost') this.drop(connection);
  }

  /** Lets go of a connection; the next call makes another one. */
  drop(connection: McpConnection | undefined): void {
    if (!connection) return;
    if (this.#connection === connection) this.#connection = undefined;
    if (connection.proven) this.#failures = 0;
    const closing = connection.close().finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }

  /** Ends the server where it is a process of ours. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#opening?.close();
    await this.#connecting?.catch(() => {});
    this.drop(this.#connection);
    await Promise.all(this.#closing);
  }

  #assertOpen(): void {
    if (!this.#closed) return;
    throw new AgentLoopError('SHUTDOWN', `The MCP server "${this.name}" was closed with its mcpTools; make others.`);
  }

  async #connect(): Promise<McpConnection> {
    const waitMs = this.#retryAt - Date.now();
    if (this.#lastError && waitMs > 0) {
      const message = `${this.#lastError.message}; the next try is in ${Math.ceil(waitMs / 1_000)} s`;
      throw new AgentLoopError('TOOL_FAILED', message, { retryable: true, cause: this.#lastError });
    }
    const sdk = await this.sdk();
    this.#assertOpen();
    const made = await this.#opened(sdk, this.#prior);
    if (this.#closed) await made.close();
    this.#assertOpen();
    if (made.isClosed) throw this.#unusable('ended', made.stderrTail);
    this.#connection = made;
    this.#verdict ??= { prior: made.verdict, until: Date.now() + verdictMs };
    this.#options.onToolsChanged();
    return made;
  }

  /**
   * Where a process ends as it is asked for its revision, it is started once more, and spoken to as before 2026-07-28. One that answers after it was taken for such a server is started
   * once more, too: the first request has decided what it speaks. `isPatient`: its answer is waited for.
   */
  async #opened(sdk: ClientSdk, prior: PriorDiscovery | undefined, isPatient = false): Promise<McpConnection> {
    const made = this.#made(sdk, prior, isPatient);
    this.#opening = made;
    try {
      await made.open();
      return made;
    } catch (thrown) {
      this.#verdict = undefined;
      const signIn = this.signInFor(thrown, made);
      if (signIn) throw signIn;
      if (made.isSlow && !isPatient && !this.#closed) return this.#opened(sdk, undefined, true);
      const { protocol = defaultProtocol } = this.server;
      if (made.hasExited && made.flaw === undefined && prior === undefined && protocol === 'auto' && !this.#closed)
        return this.#opened(sdk, { kind: 'legacy' });
      const { what } = made.hasExited ? exited : this.failureOf(thrown);
      throw this.#unusable(made.flaw?.what ?? what, made.stderrTail);
    }
  }

  #made(sdk: ClientSdk, prior: PriorDiscovery | undefined, isPatient: boolean): McpConnection {
    const { server, secrets } = this;
    const { timeoutMs: idleMs = defaultIdleMs, connectTimeoutMs = defaultConnectMs } = server;
    const made: McpConnection = new McpConnection({
      sdk,
      server,
      secrets,
      idleMs,
      connectTimeoutMs,
      prior,
      isPatient,
      onToolsChanged: this.#options.onToolsChanged,
      onClosed: () => this.#lost(made),
    });
    return made;
  }

  /** What is remembered of the server's revision. A process that is started again may be another version: one that is asked answers at once. */
  get #prior(): PriorDiscovery | undefined {
    if (this.#verdict && this.#verdict.until < Date.now()) this.#verdict = undefined;
    const prior = this.#verdict?.prior;
    if (prior?.kind === 'modern' && !isHttp(this.server)) this.#verdict = undefined;
    return this.#verdict?.prior;
  }

  #lost(connection: McpConnection): void {
    if (this.#connection !== connection) return;
    this.#connection = undefined;
    if (connection.proven) this.#failures = 0;
    else this.#unusable('ended', connection.stderrTail);
  }

  #unusable(what: string, stderr: string): AgentLoopError {
    const wrote = this.secrets.redact(stderr).trim().slice(-maxStderr);
    const message = `the MCP server "${this.name}" cannot be used: it ${what}${wrote === '' ? '' : `, and wrote: ${wrote}`}`;
    return this.#leaveAlone(new AgentLoopError('TOOL_FAILED', message, { retryable: true }));
  }

  #leaveAlone(error: AgentLoopError): AgentLoopError {
    const { initialMs = 500, maxMs = 30_000 } = this.#options.reconnect;
    this.#retryAt = Date.now() + Math.min(maxMs, initialMs * 2 ** this.#failures);
    this.#failures++;
    this.#lastError = error;
    return error;
  }
}

const exited: Failure = { kind: 'lost', what: 'went away before it answered' };

interface NotedRequest {
  readonly method: string;
  readonly link: ServerLink;
  readonly connection: McpConnection;
  readonly resourceUri?: string;
  readonly promptName?: string;
}

/** Writes onto the span of the tool call that a server is asked. The id of the session stays out: who knows it can use the session. */
export function noteRequest(
  traceContext: Context,
  { method, link, connection, resourceUri, promptName }: NotedRequest,
): void {
  const span = trace.getSpan(traceContext);
  if (!span?.isRecording()) return;
  const version = connection.protocolVersion;
  span.setAttributes({
    [attribute.mcpMethod]: method,
    [attribute.mcpServer]: link.name,
    ...(version !== undefined && { [attribute.mcpProtocolVersion]: version }),
    ...(resourceUri !== undefined && { [attribute.mcpResourceUri]: resourceUri }),
    ...(promptName !== undefined && { [attribute.promptName]: promptName }),
    ...placeOf(link),
  });
}

function placeOf({ server }: ServerLink): Attributes {
  if (!isHttp(server)) return { [attribute.networkTransport]: 'pipe' };
  const { hostname, port, protocol } = new URL(server.url);
  const known = port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port);
  return {
    [attribute.networkTransport]: 'tcp',
    [attribute.serverAddress]: hostname,
    [attribute.serverPort]: known,
  };
}

import { type ChildProcess, spawn } from 'node:child_process';
import type {
  AuthProvider,
  FetchLike,
  JSONRPCMessage,
  ReadBuffer,
  StreamableHTTPClientTransport,
  Transport,
} from '@modelcontextprotocol/client';
import { boundedResponse, type LimitError } from '../body-limits.ts';
import { AgentLoopError, JsonCounter, maxMessageDepth, systemClock } from '../core/contracts/index.ts';
import { after, pause, within } from '../core/streams/index.ts';
import type { Failure } from './call-failure.ts';
import type { ClientSdk } from './load-sdk.ts';
import {
  bodyLimitsOf,
  limitError,
  type McpHeaders,
  type McpHttpOptions,
  type McpProcessOptions,
} from './mcp-options.ts';
import { authorized, type HttpAuth } from './sign-in/http-auth.ts';

interface HttpTransportOptions {
  readonly sdk: ClientSdk;
  readonly server: McpHttpOptions;
  readonly auth?: HttpAuth | undefined;
  /** Sends requests in place of `fetch`. */
  readonly fetch?: FetchLike | undefined;
  /** Told of headers before they are sent. */
  readonly onHeaders: (headers: McpHeaders) => void;
  /**
   * Called where the stream that should have brought the answer of a tool has ended. `resumable`: the server may send the rest of it
   * on another stream.
   */
  readonly onStreamEnd: (resumable: boolean) => void;
  /** Called where the server sends what it may not, before what reads the response hears of it. */
  readonly onFlaw: (flaw: Failure) => void;
}

/** Streams that break off are taken up again this often. */
const reconnectionOptions = {
  initialReconnectionDelay: 500,
  maxReconnectionDelay: 30_000,
  reconnectionDelayGrowFactor: 2,
  maxRetries: 10,
};

/** Streamable HTTP with the server's headers on each request, and an eye on answers that break off: the SDK's own waits for them for ever. */
export function httpTransport(options: HttpTransportOptions): StreamableHTTPClientTransport {
  const { sdk, server, auth, fetch: base = fetch } = options;
  const address = new URL(server.url);
  const limits = bodyLimitsOf(server);
  // A stream that the server keeps open for what it has to say brings many messages.
  const eventLimits = { ...limits, maxBodyBytes: Number.POSITIVE_INFINITY };
  const fail: LimitError = (what, limit) => {
    options.onFlaw({ kind: limit === 'size' ? 'too-large' : 'unreadable', what });
    return limitError(what, limit);
  };
  const send: FetchLike = async (url, init) => {
    const own = await headersOf(server);
    if (own) options.onHeaders(own);
    const asked = requestIn(init?.body);
    const sendWith = async (token: string | undefined) => {
      const headers = new Headers(init?.headers);
      if (token !== undefined) headers.set('Authorization', `Bearer ${token}`);
      for (const [name, value] of Object.entries(own ?? {})) headers.set(name, value);
      const request = () => base(url, { ...init, headers });
      return request().catch((error: unknown) => {
        if (repeatable.has(asked?.method) && isBrokenSocket(error) && !init?.signal?.aborted) return request();
        throw error;
      });
    };
    // Ending a session is not worth a sign-in.
    const signsIn = auth && init?.method !== 'DELETE';
    const request = async () =>
      signsIn ? authorized({ sdk, auth, send: sendWith, signal: init?.signal }) : sendWith(await auth?.token());
    const response = await request().catch((error: unknown) => {
      // By any other failure the SDK would take up the stream again and again, also behind its own end.
      if (init?.method === 'GET' && init.signal?.aborted) return new Response(null, { status: 405 });
      throw error;
    });
    const isOpenEnded = init?.method === 'GET' || asked?.method === 'subscriptions/listen';
    const bounded = boundedResponse(response, isOpenEnded ? eventLimits : limits, fail);
    return asked?.isToolCall ? watched(bounded, options.onStreamEnd) : bounded;
  };
  const unauthorized: AuthProvider = {
    // `send` adds the token: it gets another one and sends the request again by itself.
    token: async () => undefined,
    onUnauthorized: async () => {
      throw new sdk.UnauthorizedError();
    },
  };
  return new sdk.StreamableHTTPClientTransport(address, {
    fetch: send,
    reconnectionOptions,
    ...(auth && { authProvider: unauthorized }),
  });
}

/**
 * Sent once more where the connection breaks before the response: a server closes an idle one without knowing that a request is on its way. A request that may
 * have an effect is not among them.
 */
const repeatable: ReadonlySet<unknown> = new Set([
  ...['server/discover', 'ping', 'tools/list'],
  ...['resources/list', 'resources/templates/list', 'prompts/list'],
]);

function isBrokenSocket(thrown: unknown): boolean {
  const cause = isRecord(thrown) ? thrown['cause'] : undefined;
  const code = isRecord(cause) ? cause['code'] : undefined;
  return code === 'ECONNRESET' || code === 'EPIPE' || code === 'UND_ERR_SOCKET';
}

/** A function that gives them has as long as the server has to start. */
async function headersOf({ headers, connectTimeoutMs: ms = 30_000 }: McpHttpOptions): Promise<McpHeaders | undefined> {
  if (typeof headers !== 'function') return headers;
  const late = () =>
    new AgentLoopError(
      'UNAVAILABLE',
      `has no headers: their function did not answer within ${ms} ms (connectTimeoutMs)`,
      {
        retryable: true,
      },
    );
  return within({ ms, clock: systemClock, late }, headers);
}

interface AskedRequest {
  readonly method: unknown;
  /** One whose answer comes on its own stream: that of a task does not. */
  readonly isToolCall: boolean;
}

function requestIn(body: unknown): AskedRequest | undefined {
  if (typeof body !== 'string' || !body.startsWith('{')) return undefined;
  const message: unknown = JSON.parse(body);
  if (!isRecord(message)) return undefined;
  const { method, params } = message;
  return { method, isToolCall: method === 'tools/call' && !(isRecord(params) && params['task'] !== undefined) };
}

/** The same response, with a callback at its end. */
function watched(response: Response, onEnd: (resumable: boolean) => void): Response {
  const { body, status, headers } = response;
  if (!response.ok || !body || !headers.get('content-type')?.startsWith('text/event-stream')) return response;
  const decoder = new TextDecoder();
  let line = '';
  let resumable = false;
  const read = (text: string) => {
    const lines = (line + text).split(/\r?\n/);
    line = (lines.pop() ?? '').slice(0, 3);
    if (lines.some((each) => each.startsWith('id:'))) resumable = true;
  };
  const reader = body.getReader();
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { value, done } = await reader.read();
        if (value) {
          read(decoder.decode(value, { stream: true }));
          return controller.enqueue(value);
        }
        if (done) controller.close();
      } catch (error) {
        controller.error(error);
      }
      // After the last chunk was read.
      after(0, systemClock, () => onEnd(resumable));
    },
    cancel: (reason: unknown) => reader.cancel(reason),
  });
  return new Response(stream, { status, headers });
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

const defaultGraceMs = 1_500;
/** How long what a process that has ended wrote may be on its way. Milliseconds. */
const restMs = 200;
const tailLength = 2_000;

/**
 * An MCP server as a process, one JSON message a line. It leads a process group of its own, so that what it starts ends with it: with
 * `close`, with its own end, and, at once, with the end of this process.
 */
export class ChildTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  /** Called where the server answers `server/discover` after `initialize` was sent in its place. */
  onLateDiscovery?: () => void;
  /** Why we left the process. */
  flaw: Failure | undefined;
  /** Whether the process ended before we closed it. */
  hasExited = false;
  /** By this and `pid` the SDK knows that a process is spoken to, where silence says something of the revision. */
  readonly stderr = null;
  readonly #sdk: ClientSdk;
  readonly #options: McpProcessOptions;
  readonly #buffer: ReadBuffer;
  #child: ChildProcess | undefined;
  /** The id of `server/discover` while it is not answered. */
  #discovery: unknown;
  #hasFallenBack = false;
  /** Of the line so far. */
  #depth = lineDepth();
  #stderr = '';
  #delivering = false;
  #over: Promise<void> | undefined;
  #closed = false;
  #closing = false;

  constructor(sdk: ClientSdk, options: McpProcessOptions) {
    this.#sdk = sdk;
    this.#options = options;
    this.#buffer = new sdk.ReadBuffer({ maxBufferSize: bodyLimitsOf(options).maxEventBytes });
  }

  get #graceMs(): number {
    return this.#options.closeGraceMs ?? defaultGraceMs;
  }

  /** The end of what the process wrote to stderr. */
  get stderrTail(): string {
    return this.#stderr;
  }

  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /** Resolves once the process runs; rejects where it cannot be started. */
  start(): Promise<void> {
    const { command, args = [], env, cwd } = this.#options;
    return new Promise((resolve, reject) => {
      const child = spawn(command, args, {
        env: { ...this.#sdk.getDefaultEnvironment(), ...env },
        stdio: 'pipe',
        detached: process.platform !== 'win32',
        windowsHide: true,
        ...(cwd !== undefined && { cwd }),
      });
      this.#child = child;
      this.#over = new Promise((ended) => {
        child.once('error', (error) => {
          reject(startError(error, this.#options));
          this.#ended();
          ended();
        });
        child.once('exit', () => {
          this.hasExited = !this.#closing;
          const stop = after(restMs, systemClock, () => this.#hangUp());
          child.once('close', () => {
            stop();
            ended();
            this.#ended();
          });
        });
      });
      child.once('spawn', () => {
        if (child.pid !== undefined) watchGroup(child.pid);
        resolve();
      });
      this.#listen(child);
    });
  }

  send(message: JSONRPCMessage): Promise<void> {
    if ('method' in message && 'id' in message) {
      if (message.method === 'server/discover') this.#discovery = message.id;
      if (message.method === 'initialize') this.#hasFallenBack = this.#discovery !== undefined;
    }
    const stdin = this.#child?.stdin;
    return new Promise((resolve, reject) => {
      if (this.#closed || !stdin?.writable) return reject(new Error('the process is not there'));
      stdin.write(this.#sdk.serializeMessage(message), (error) => (error ? reject(error) : resolve()));
    });
  }

  /** Closes stdin, then sends SIGTERM, then SIGKILL, to all that the process started, each where the one before did not help. */
  async close(): Promise<void> {
    const child = this.#child;
    this.#closing = true;
    if (!child) return;
    child.stdin?.end();
    if (child.pid !== undefined && isGroupAlive(child.pid))
      await endGroup(child.pid, { graceMs: this.#graceMs, politely: true });
    this.#hangUp();
    await this.#over;
  }

  #listen(child: ChildProcess): void {
    for (const pipe of [child.stdin, child.stdout, child.stderr])
      pipe?.on('error', (error: Error) => this.onerror?.(error));
    child.stdout?.on('data', (chunk: Buffer) => this.#read(chunk));
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-tailLength);
    });
  }

  #read(chunk: Buffer): void {
    if (this.flaw) return;
    if (this.#nestsTooDeep(chunk)) {
      const what = `sent JSON that nests deeper than ${maxMessageDepth} levels`;
      return this.#leave({ kind: 'unreadable', what }, new Error(what));
    }
    try {
      this.#buffer.append(chunk);
    } catch (error) {
      // A line without an end: nothing after it could be parsed.
      const { maxEventBytes } = bodyLimitsOf(this.#options);
      const what = `sent more than maxEventBytes (${maxEventBytes} bytes) in one line: raise it, or ask for a shorter answer`;
      return this.#leave({ kind: 'too-large', what }, error);
    }
    if (!this.#delivering) void this.#deliver();
  }

  #nestsTooDeep(chunk: Buffer): boolean {
    let from = 0;
    for (let end = chunk.indexOf('\n'); end !== -1; end = chunk.indexOf('\n', from)) {
      if (this.#depth.add(chunk.subarray(from, end))) return true;
      this.#depth = lineDepth();
      from = end + 1;
    }
    return this.#depth.add(chunk.subarray(from)) !== undefined;
  }

  #leave(flaw: Failure, error: unknown): void {
    this.flaw = flaw;
    this.#fail(error);
    this.#hangUp();
    void this.close();
  }

  /** One message after the other, each once the one before it was taken in: the SDK takes in a progress notification later than a response. */
  async #deliver(): Promise<void> {
    this.#delivering = true;
    for (let more = true; more; await Promise.resolve()) more = this.#deliverOne();
    this.#delivering = false;
  }

  #deliverOne(): boolean {
    try {
      const message = this.#buffer.readMessage();
      if (message === null) return false;
      if (!('method' in message) && message.id !== undefined && message.id === this.#discovery) {
        this.#discovery = undefined;
        if (this.#hasFallenBack && 'result' in message) this.onLateDiscovery?.();
      }
      this.onmessage?.(message);
    } catch (error) {
      this.#fail(error);
    }
    return true;
  }

  #fail(error: unknown): void {
    this.onerror?.(error instanceof Error ? error : new Error(String(error)));
  }

  /** Lets go of pipes that a process which outlives the group may hold. */
  #hangUp(): void {
    this.#child?.stdin?.destroy();
    this.#child?.stdout?.destroy();
    this.#child?.stderr?.destroy();
  }

  #ended(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#buffer.clear();
    const pid = this.#child?.pid;
    if (pid !== undefined) void endGroup(pid, { graceMs: this.#graceMs, politely: false });
    this.onclose?.();
  }
}

function lineDepth(): JsonCounter {
  return new JsonCounter(maxMessageDepth, Number.POSITIVE_INFINITY);
}

function startError(error: Error, { command, cwd }: McpProcessOptions): Error {
  if (!('code' in error) || error.code !== 'ENOENT') return error;
  return new Error(`there is no program "${command}"${cwd === undefined ? '' : `, or no folder "${cwd}"`}`);
}

/** The groups that this process has started and that are to end with it, by their leaders' process ids. */
const groups = new Set<number>();
const pollMs = 20;
let listening = false;

/** Ends the group at once where this process exits before the group was ended. */
function watchGroup(leader: number): void {
  groups.add(leader);
  if (listening) return;
  listening = true;
  process.once('exit', () => {
    for (const each of groups) signalGroup(each, 'SIGKILL');
  });
}

function isGroupAlive(leader: number): boolean {
  return signalGroup(leader, 0);
}

interface EndOptions {
  /** How long each step may take. Milliseconds. */
  readonly graceMs: number;
  /** Whether the group has been asked to end by other means, and gets time for it before SIGTERM. */
  readonly politely: boolean;
}

/** Waits for a group to end by itself, if it was asked to, then sends SIGTERM, then SIGKILL. Resolves once nothing of it is left. */
async function endGroup(leader: number, { graceMs, politely }: EndOptions): Promise<void> {
  const gone = (politely && (await isGoneWithin(leader, graceMs))) || !signalGroup(leader, 'SIGTERM');
  if (!gone && !(await isGoneWithin(leader, graceMs))) {
    signalGroup(leader, 'SIGKILL');
    await isGoneWithin(leader, graceMs);
  }
  groups.delete(leader);
}

async function isGoneWithin(leader: number, ms: number): Promise<boolean> {
  const deadline = Date.now() + ms;
  while (isGroupAlive(leader)) {
    if (Date.now() >= deadline) return false;
    await pause(pollMs, systemClock);
  }
  return true;
}

/** Whether there was anybody to get the signal. */
function signalGroup(leader: number, signal: NodeJS.Signals | 0): boolean {
  try {
    // Windows has no groups: there only the leader is reached.
    process.kill(process.platform === 'win32' ? leader : -leader, signal);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node';
import { readJson } from '../../json-body.ts';
import type { NodeSdk, ServerSdk } from '../load-sdk.ts';
import { agentServer, type CallerTurns, OpenCalls } from './agent-server.ts';
import { sentenceOf } from './json-lines.ts';
import type { RequestStates } from './request-state.ts';
import type { ServedAgent } from './served-agent.ts';
import { SessionEvents } from './session-events.ts';

/** Where requests come from. */
export interface Caller {
  /** Whose sessions are counted together. */
  readonly name: string;
  /** A digest of the credentials. Undefined where none are needed. */
  readonly principal: string | undefined;
}

/** A request that was let in, and the way to answer it. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly caller: Caller;
}

/** An HTTP status, and why. */
export type Refusal = readonly [status: number, message: string];

/** The body of a post. Of one that is refused the rest is read and dropped, so that the client reads why. */
export async function postedJson(
  request: IncomingMessage,
  maxBytes: number,
): Promise<{ readonly value: unknown } | Refusal> {
  const declared = request.headers['content-length'];
  const read = await readJson(request.iterator({ destroyOnReturn: false }), { maxBytes, declared });
  if ('value' in read) return read;
  request.resume();
  return [read.fault === 'bytes' ? 413 : 400, sentenceOf(read.fault, maxBytes)];
}

export interface SessionsOptions {
  readonly sdk: ServerSdk;
  readonly node: NodeSdk;
  readonly served: ServedAgent;
  readonly states: RequestStates;
  readonly callerTurns: CallerTurns;
  readonly maxBodyBytes: number;
  readonly maxSessions?: number | undefined;
  readonly maxSessionsPerCaller?: number | undefined;
  readonly sessionIdleMs?: number | undefined;
}

/** The sessions of clients before 2026-07-28, by their ids. */
export class Sessions {
  readonly #options: SessionsOptions;
  readonly #open = new Map<string, OpenSession>();
  /** The callers of sessions by their ids, and those of handshakes that are under way. */
  readonly #places = new Map<string, string>();
  readonly #sweep: NodeJS.Timeout;

  constructor(options: SessionsOptions) {
    this.#options = options;
    const { sessionIdleMs = 1_800_000 } = options;
    this.#sweep = setInterval(() => this.#forgetIdle(sessionIdleMs), Math.max(100, sessionIdleMs / 4)).unref();
  }

  /** The id of a new session, which takes a place until it is released; or why there is none. */
  reserve(caller: Caller): string | Refusal {
    const { maxSessions = 100, maxSessionsPerCaller: most = 25 } = this.#options;
    if (this.#places.size >= maxSessions) return [503, 'there are too many clients; try again later'];
    const count = [...this.#places.values()].filter((each) => each === caller.name).length;
    if (count >= most) return [429, `you have ${count} sessions, the most that one caller may have; end one`];
    const id = crypto.randomUUID();
    this.#places.set(id, caller.name);
    return id;
  }

  /** Frees the place of a request that began no session. */
  release(id: string): void {
    if (!this.#open.has(id)) this.#places.delete(id);
  }

  /** Handles a request that names its session. A session of another caller is treated as if there were none. */
  async handle(id: string, { request, response, caller }: Exchange): Promise<Refusal | undefined> {
    const known = this.#open.get(id);
    if (!known || known.caller.principal !== caller.principal) return [404, 'there is no such session'];
    known.usedAt = Date.now();
    const isJson = this.#options.sdk.isJsonContentType(request.headers['content-type'] ?? null);
    const read =
      request.method === 'POST' && isJson ? await postedJson(request, this.#options.maxBodyBytes) : undefined;
    if (read && !('value' in read)) return read;
    await known.transport.handleRequest(request, response, read?.value);
    return undefined;
  }

  /** Another request than a handshake is refused by the transport, which is dropped then. */
  async begin(id: string, body: unknown, { request, response, caller }: Exchange): Promise<void> {
    const { sdk, node, served, states, callerTurns, maxBodyBytes } = this.#options;
    const transport = new node.NodeStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      onsessioninitialized: () => void this.#open.set(id, opened),
      maxRequestBodySize: maxBodyBytes,
      eventStore: new SessionEvents(),
    });
    const calls = new OpenCalls();
    const counted = { callerTurns, caller: caller.principal ?? 'local' };
    const server = agentServer({
      sdk,
      served,
      states,
      calls,
      era: 'legacy',
      scope: id,
      streamsCalls: true,
      ...counted,
    });
    const opened: OpenSession = { id, caller, transport, calls, usedAt: Date.now() };
    server.onclose = () => void this.#forget(opened);
    try {
      await server.connect(transport);
      await transport.handleRequest(request, response, body);
    } finally {
      if (!this.#open.has(id)) await this.#end(opened);
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep);
    await Promise.all([...this.#open.values()].map((each) => this.#end(each)));
  }

  #forgetIdle(idleMs: number): void {
    for (const each of this.#open.values())
      if (!each.calls.isBusy && Date.now() - each.usedAt > idleMs) void this.#end(each);
  }

  async #end(each: OpenSession): Promise<void> {
    await this.#forget(each);
    await each.transport.close();
  }

  async #forget(each: OpenSession): Promise<void> {
    this.#open.delete(each.id);
    this.#places.delete(each.id);
    await each.calls.close();
  }
}

interface OpenSession {
  readonly id: string;
  readonly caller: Caller;
  readonly transport: NodeStreamableHTTPServerTransport;
  readonly calls: OpenCalls;
  usedAt: number;
}

import type { Request as Received, Response as Reply, RequestHandler } from 'express';
import type { Agent } from '../../agent/agent.ts';
import { AgentLoopError, type AuthContext, messageOf } from '../../core/contracts/index.ts';
import { onAbort } from '../../core/streams/index.ts';
import type { KeptBytes } from '../kept-bytes.ts';
import { limitOf } from '../protocol-errors.ts';
import { ownerOf, Scope } from '../scope.ts';
import { type Admission, admit, countAsked } from './admission.ts';
import { type Caller, type Connection, callerOf, keepCaller } from './caller.ts';
import { refuse } from './refusal.ts';

/** What a handler that is served beside A2A is given: options of the handlers of `millrace/ui` and `millrace/openai`. */
export interface RouteAgent {
  /** With the server's store; its turns drain when the server closes. */
  readonly agent: Agent;
  /** The user of a request; where callers are not asked who they are, the same for all. */
  readonly scopeOf: (request: Request) => string;
  readonly authContextOf: (request: Request) => AuthContext | undefined;
  /**
   * Limits the turns and streams of the caller, and what is kept for it, with those of A2A. Errors: `BUSY` where the caller has as many as it may,
   * and the server answers 429 in place of the handler; `FULL`.
   */
  readonly admit: (added: AddedTurn, request: Request) => Promise<() => void>;
  /** Counts a turn that a request starts or continues as one of its caller. */
  readonly onTurn: (turn: { readonly settled: Promise<unknown> }, request: Request) => void;
}

/** What a request adds to the stores: a message that starts a turn of a conversation, or answers. */
export interface AddedTurn {
  readonly contextId: string;
  readonly bytes: number;
  readonly startsTurn: boolean;
  /** Whether the turn is streamed to the request. */
  readonly isStreamed: boolean;
}

/** A `fetch` handler that the server serves beside A2A. */
export interface ServerRoute {
  /** What the paths of its requests begin with, `/v1`. */
  readonly path: string;
  /** Makes it: `({ agent, ...callers }) => openAIHandler({ ...callers, agents: [agent] })`. */
  readonly handlerOf: (served: RouteAgent) => RouteHandler;
}

/** A `fetch` handler of requests that are not of A2A. */
export interface RouteHandler {
  (request: Request): Promise<Response>;
  /** Called when the server starts. */
  start?(): void;
  /** Called when the server closes. */
  close?(): void;
}

interface RouteOptions {
  readonly agent: Agent;
  readonly admission: Admission;
  readonly kept: KeptBytes | undefined;
}

/** Makes the handler. */
export function routeHandler({ handlerOf }: ServerRoute, { agent, admission, kept }: RouteOptions): RouteHandler {
  return handlerOf({
    agent,
    scopeOf: (request) => scopeOf(callerOf(request)),
    authContextOf: (request) => callerOf(request).authContext,
    async admit(added, request) {
      const caller = callerOf(request);
      caller.refusal = countAsked(caller, { turn: true, stream: added.isStreamed }, admission);
      if (caller.refusal) throw new AgentLoopError('BUSY', caller.refusal.message);
      return kept ? admitted(kept, { agentId: agent.id, caller, added }) : () => {};
    },
    onTurn: ({ settled }, request) => admission.turns.started(callerOf(request), settled),
  });
}

/**
 * Lets the callers of the server in, at its rate, and has the handler answer. Counts the streams that it answers with, also of turns that others have
 * started. A client that disconnects cancels the response.
 */
export function fetchRoute(handler: RouteHandler, admission: Admission): readonly RequestHandler[] {
  const answer: RequestHandler = async (request, response) => {
    const caller = callerOf(request);
    const { closed } = caller.connection;
    const asked = requestOf(request, closed);
    if (!asked) return void response.status(400).json({ error: { code: 'INVALID_INPUT', message: 'Not a request.' } });
    keepCaller(asked, caller);
    const answered = await handler(asked);
    const stream = answered.headers.get('content-type')?.startsWith('text/event-stream') ?? false;
    const refusal = caller.refusal ?? countAsked(caller, { turn: false, stream }, admission);
    if (refusal === undefined) return send(answered, response, caller.connection);
    answered.body?.cancel().catch(() => {});
    refuse(request, response, 'FETCH', refusal);
  };
  return [admit('FETCH', admission), answer];
}

/** The owner that A2A knows without a tenant: one where callers are not asked who they are. */
function scopeOf({ isAuthenticated, userName }: Caller): string {
  return isAuthenticated ? ownerOf('', userName) : ownerOf('');
}

interface AddedOf {
  readonly agentId: string;
  readonly caller: Caller;
  readonly added: AddedTurn;
}

/** Errors: `FULL` at the limit; what the stores say. */
async function admitted(kept: KeptBytes, { agentId, caller, added }: AddedOf): Promise<() => void> {
  const owner = new Scope(agentId, scopeOf(caller), { isAnonymous: !caller.isAuthenticated });
  const { contextId, bytes, startsTurn } = added;
  try {
    return await kept.admit(owner, { contextId, bytes, ...(startsTurn && { turn: 'later' }) });
  } catch (error) {
    throw limitOf(error) ? new AgentLoopError('FULL', messageOf(error), { cause: error }) : error;
  }
}

/** `undefined` for what `fetch` has no request for. */
function requestOf(received: Received, signal: AbortSignal): Request | undefined {
  const { method, originalUrl, rawHeaders } = received;
  const headers = new Headers();
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const [name = '', value = ''] = rawHeaders.slice(index, index + 2);
    headers.append(name, value);
  }
  const hasBody = method !== 'GET' && method !== 'HEAD';
  try {
    const body = hasBody ? { body: bodyOf(received), duplex: 'half' as const } : {};
    return new Request(new URL(originalUrl, 'http://localhost'), { method, headers, signal, ...body });
  } catch {
    return undefined;
  }
}

function bodyOf(received: Received): ReadableStream<Uint8Array> {
  const chunks = received[Symbol.asyncIterator]();
  return new ReadableStream({
    async pull(controller) {
      const next = await chunks.next();
      if (next.done) controller.close();
      else controller.enqueue(next.value);
    },
    cancel: async () => void (await chunks.return?.()),
  });
}

/** At the pace of the reader. */
async function send({ status, headers, body }: Response, response: Reply, connection: Connection): Promise<void> {
  response.writeHead(status, Object.fromEntries(headers));
  response.flushHeaders();
  const reader = body?.getReader();
  const leave = () => void reader?.cancel().catch(() => {});
  onAbort(connection.closed, leave);
  if (connection.closed.aborted) leave();
  for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) {
    response.write(next.value);
    await connection.drained();
  }
  response.end();
}

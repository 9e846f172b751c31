import type { Agent } from '../agent/agent.ts';
import {
  type AuthContext,
  invalidConfig,
  type MaybePromise,
  type MessageStore,
  shownValue,
  type TaskStateStore,
} from '../core/contracts/index.ts';
import { checkNames } from '../options/option-rules.ts';
import type { Turn } from '../tasks/turn.ts';
import { malformed, Refusal, refusalOf, refused } from './requests.ts';
import { type Shown, type StreamOptions, shownOf } from './stream-options.ts';

/** Options of all handlers. */
export interface HandlerOptions extends Pick<StreamOptions, 'tools' | 'reasoning' | 'errorText' | 'heartbeatMs'> {
  /** Needs a `taskStateStore`. For a team: `team.asAgent()`. */
  readonly agent: Agent;
  /**
   * Names the owner of what a request starts and sees: requests of one scope share their chats, those of others find nothing there. `undefined`, or an empty string, refuses the
   * request with 401. Take it from what you have verified, never from the body.
   */
  readonly scopeOf: (request: Request) => MaybePromise<string | undefined>;
  /** The caller's identity for tools. Default: none. */
  readonly authContextOf?: ((request: Request) => MaybePromise<AuthContext | undefined>) | undefined;
  /** Called with each turn that a request starts or continues here, to count it or to log it. Must not throw. Default: none. */
  readonly onTurn?: ((turn: Turn, request: Request) => void) | undefined;
  /**
   * Called before a request starts a turn or answers one, to limit what is kept for a user. What it throws refuses the request: an `AgentLoopError` by its code, `FULL` as 507. The
   * function that it gives is called once the turn is over, or where it did not begin. Default: everything is let in.
   */
  readonly admit?: ((added: Added, request: Request) => MaybePromise<() => void>) | undefined;
  /** The `context` that tools and hooks get in turns of this request. Default: none. */
  readonly contextOf?: ((request: Request) => unknown) | undefined;
  /**
   * What becomes of a turn whose client disconnects. `'continue'`: it continues, and the client can come back; `stop` ends it. `'cancel'`: it is cancelled when
   * the response that started it is left, also where others follow the turn. Default: `'continue'` where the store outlives the process, else `'cancel'`.
   */
  readonly onDisconnect?: 'cancel' | 'continue' | undefined;
  /** How often turns of these chats that nobody runs are looked for, from `start()` or the first request on. Milliseconds; default 30,000; 0: never. */
  readonly recoverEveryMs?: number | undefined;
  /** The limits of a request. Default: those of each. */
  readonly limits?: HandlerLimits | undefined;
}

/** What a request adds to the stores. */
export interface Added {
  /** The conversation that the turn is of. Those of one scope begin with the same group, up to the first colon. */
  readonly contextId: string;
  /** The bytes of the message, or of the answers, as JSON. */
  readonly bytes: number;
  /** Whether it starts a turn, whose journal gets a copy of the conversation; else it answers one. */
  readonly startsTurn: boolean;
  /** Whether the turn is streamed to the request; else it waits for the end. */
  readonly isStreamed: boolean;
}

/** The limits of a request handler. */
export interface HandlerLimits {
  /** Of the body of a request. Default 10 MiB. */
  readonly maxBodyBytes?: number | undefined;
  /** How many messages a post may have, of which only the last one is read, and how many `GET messages` gives. Default 1,000. */
  readonly maxMessages?: number | undefined;
}

/** Answers requests as `fetch` handlers of Node.js frameworks, Bun, Deno and edge functions do. */
export interface FetchHandler {
  (request: Request): Promise<Response>;
  /** Begins to look for turns that nobody runs. Call it when the process starts: else turns of a process that died wait for the first request. `a2aServer` and `millrace serve` call it. */
  start(): void;
  /** Stops looking for turns that nobody runs. Turns continue. */
  close(): void;
}

export interface ResolvedHandler extends HandlerOptions {
  readonly store: TaskStateStore;
  readonly messages: MessageStore;
  readonly shown: Shown;
  readonly isDetached: boolean;
  readonly recoverMs: number;
  readonly maxBodyBytes: number;
  readonly maxMessages: number;
}

const names = [
  ...['agent', 'scopeOf', 'authContextOf', 'contextOf', 'onTurn', 'admit', 'onDisconnect', 'recoverEveryMs', 'limits'],
  ...['tools', 'reasoning', 'errorText', 'heartbeatMs'],
];

/** Errors: `INVALID_CONFIG`, naming the option and the cure. `own`: options that only this handler has. */
export function resolveHandler(options: HandlerOptions, own: readonly string[] = []): ResolvedHandler {
  checkNames(options, [...names, ...own], 'the handler');
  const { agent, scopeOf, onDisconnect, recoverEveryMs: recoverMs = 30_000, limits = {} } = options;
  if (typeof agent?.startTurn !== 'function')
    throw invalidConfig('agent must be an Agent', 'give agent({ … }), or team.asAgent()');
  if (typeof scopeOf !== 'function')
    throw invalidConfig('scopeOf must be a function', 'write (request) => the id of the verified user');
  if (onDisconnect !== undefined && onDisconnect !== 'cancel' && onDisconnect !== 'continue')
    throw invalidConfig(`onDisconnect is ${shownValue(onDisconnect)}`, 'it must be "cancel" or "continue"');
  const { maxBodyBytes = 10 * 2 ** 20, maxMessages = 1_000, ...others } = limits;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined)
    throw invalidConfig(`limits.${unknown} is not a limit`, 'the limits are maxBodyBytes and maxMessages');
  for (const [name, value] of Object.entries({ recoverEveryMs: recoverMs + 1, maxBodyBytes, maxMessages }))
    if (!(typeof value === 'number' && value > 0)) throw invalidConfig(`${name} is not valid`, 'give a number above 0');
  const { taskStateStore: store } = agent.options;
  const messages = agent.options.messageStore ?? store?.messages;
  if (!store || !messages)
    throw invalidConfig(
      `agent "${agent.id}" needs a taskStateStore, and a messageStore if that one keeps no conversations`,
      'give e.g. new LmdbStateStore({ path })',
    );
  const isDetached = (onDisconnect ?? (store.isEphemeral ? 'cancel' : 'continue')) === 'continue';
  return { ...options, store, messages, shown: shownOf(options), isDetached, recoverMs, maxBodyBytes, maxMessages };
}

/** The owner of a request. Errors: `Refusal` with 401. */
export async function scopeFor({ scopeOf }: HandlerOptions, request: Request): Promise<string> {
  const scope = await scopeOf(request);
  if (typeof scope === 'string' && scope !== '') return scope;
  throw new Refusal(401, 'UNAUTHENTICATED', 'Authentication is required.');
}

/** What a request gives the turn that it starts or continues. */
export async function valuesFor({ authContextOf, contextOf }: HandlerOptions, request: Request) {
  const authContext = await authContextOf?.(request);
  const context = contextOf?.(request);
  return { ...(authContext && { authContext }), ...(context !== undefined && { context }) };
}

/** Answers what fails before there is a stream. */
export function handlerOf(
  { shown, agent }: ResolvedHandler,
  answer: (request: Request) => Promise<Response>,
  recovery: Pick<FetchHandler, 'start' | 'close'>,
): FetchHandler {
  const handle = async (request: Request): Promise<Response> => {
    try {
      // On a connection that is kept alive requests arrive while the process drains: their streams would keep it from ending.
      if (agent.options.shutdown?.aborted) throw new Refusal(503, 'SHUTDOWN', 'The server is shutting down.');
      return await answer(request);
    } catch (error) {
      const refusal = refusalOf(error, shown.errorText);
      // A client that left in the middle of its body is no failure of the server.
      if (refusal.status >= 500 && !request.signal.aborted)
        agent.options.logger?.warn('request failed', { code: refusal.code });
      return refused(refusal);
    }
  };
  return Object.assign(handle, { start: () => recovery.start(), close: () => recovery.close() });
}

/** The last part of the path, where it is one of these, and the chat before it. */
export function routeOf(request: Request): readonly ['stream' | 'stop' | 'messages' | undefined, string] {
  const parts = new URL(request.url).pathname.split('/').filter((part) => part !== '');
  const verb = parts.at(-1);
  const chatId = decoded(parts.at(-2) ?? '');
  return verb === 'stream' || verb === 'stop' || verb === 'messages' ? [verb, chatId] : [undefined, ''];
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw malformed('The path is not valid.');
  }
}

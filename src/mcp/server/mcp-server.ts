import { randomBytes } from 'node:crypto';
import type { Readable, Writable } from 'node:stream';
import type { Agent } from '../../agent/agent.ts';
import { agentToolName } from '../../agent/agent-tools.ts';
import { AgentLoopError } from '../../core/contracts/index.ts';
import { onAbort } from '../../core/streams/index.ts';
import {
  aBoolean,
  assertGiven,
  assertOptions,
  hasMethods,
  type OptionRules,
  wholeNumber,
} from '../../options/option-rules.ts';
import { InMemoryStateStore } from '../../stores/memory/in-memory-state-store.ts';
import { loadNodeSdk, loadServerSdk, type ServerSdk } from '../load-sdk.ts';
import { agentServer, OpenCalls } from './agent-server.ts';
import { checkListening, type Listening, type ListenOptions, listen } from './http-listener.ts';
import { JsonLines } from './json-lines.ts';
import { RequestStates } from './request-state.ts';
import type { ServedAgent } from './served-agent.ts';
import { WaitingTurns } from './waiting-turns.ts';

/** Options of an agent as an MCP server. */
export interface McpServerSettings {
  /** Whose turns the tool runs. */
  readonly agent: Agent;
  /** What the tool is called. Default: the agent's name. */
  readonly toolName?: string | undefined;
  /** Turns that may run at the same time, over all clients. Default 32. */
  readonly maxTurns?: number | undefined;
  /**
   * Whether a turn with a question that its client did not answer is kept, to be resumed later, instead of being cancelled. Default:
   * where the agent has a `taskStateStore`.
   */
  readonly keepUnanswered?: boolean | undefined;
  /** How long the user of a client may take to answer a question. Milliseconds; default 600,000. */
  readonly answerTimeoutMs?: number | undefined;
  /**
   * Signs what clients of 2026-07-28 keep of a turn that waits for answers: at least 32 bytes, the same in each process that may receive the
   * answers. Default: a random one, so that only this server takes them.
   */
  readonly stateKey?: string | Uint8Array | undefined;
}

/** The streams of an MCP server that speaks over stdio. Default: those of the process. */
export interface StdioStreams {
  /** Where requests come from. */
  readonly stdin: Readable;
  /** Carries the protocol; nobody else may write to it. */
  readonly stdout: Writable;
}

/** An agent that MCP clients can call. Made by {@link mcpServer}. */
export interface McpServer {
  /** The agent that runs the turns: the given one, or a copy of it with a store in memory where it had none, so that its turns can ask. */
  readonly agent: Agent;
  /**
   * Serves the one client of the streams, and resolves once it has disconnected: its turns are cancelled then. Default: the streams of this
   * process.
   */
  serve(streams?: StdioStreams): Promise<void>;
  /**
   * Serves clients over streamable HTTP until `close`. Errors: `INVALID_CONFIG`; those of the system, such as `EADDRINUSE`; `SHUTDOWN` where the
   * server was closed.
   */
  listen(options?: ListenOptions): Promise<Listening>;
  /** Lets all clients go, and cancels their turns. The agent stays open. */
  close(): Promise<void>;
}

const rules: OptionRules<McpServerSettings> = {
  agent: { fits: (value) => hasMethods(value, ['startTurn']), must: 'be an agent', cure: 'write agent({ … })' },
  toolName: {
    fits: (value) => typeof value === 'string' && /^[a-zA-Z0-9_-]{1,64}$/.test(value),
    must: 'be 1 to 64 of a-z, A-Z, 0-9, _ and -',
  },
  maxTurns: wholeNumber(1),
  keepUnanswered: aBoolean,
  answerTimeoutMs: wholeNumber(1, 2_147_483_647),
  stateKey: {
    fits: (value) => (typeof value === 'string' || value instanceof Uint8Array) && Buffer.byteLength(value) >= 32,
    must: 'be a random key of at least 32 bytes',
    secret: true,
  },
};

/**
 * Offers an agent as an MCP server with one tool, through the optional packages
 * `@modelcontextprotocol/server` and, for HTTP, `@modelcontextprotocol/node`: each call is a turn. Its arguments
 * are the `message`, and a `conversation`, whose turns share a history; without one a turn has none. The activity of the turn is sent as
 * progress, a cancel ends it, and what it asks, approvals too, is asked of the client's user by elicitation. An agent with an
 * `outputSchema` answers with structured content. The caller's trace context is taken from `_meta`.
 *
 * Where the client cannot ask its user, the call of a turn that needs an answer fails, see `keepUnanswered`. Clients read no texts of errors but the code. Errors: `INVALID_CONFIG`; `MISSING_PACKAGE` by `serve` and
 * `listen`.
 */
export function mcpServer(settings: McpServerSettings): McpServer {
  const served = checked(settings);
  const closing = new AbortController();
  const open = new Set<Promise<unknown>>();
  const track = async <T>(work: Promise<T>): Promise<T> => {
    open.add(work);
    try {
      return await work;
    } finally {
      open.delete(work);
    }
  };
  return {
    agent: served.agent,
    serve: (streams = process) => track(serveStreams(served, streams, closing.signal)),
    async listen(options = {}) {
      checkListening(options);
      const sdk = await loadServerSdk();
      const node = await loadNodeSdk();
      const listening = await listen({ ...options, sdk, node, served, states: statesOf(served, sdk) });
      const close = () => track(listening.close());
      if (closing.signal.aborted) {
        await close();
        throw new AgentLoopError('SHUTDOWN', 'The mcpServer was closed; make another one.');
      }
      const stopListening = onAbort(closing.signal, () => void close());
      const end = () => {
        stopListening();
        return close();
      };
      return { url: listening.url, close: end };
    },
    async close() {
      closing.abort();
      await Promise.allSettled(open);
      await served.waiting.close();
    },
  };
}

/** Ended turns of a server without a store: a retry of a call gets its result again. */
const keptResults = 1_000;

function checked(settings: McpServerSettings): ServedAgent {
  assertOptions('mcpServer', settings, rules);
  assertGiven('mcpServer', 'agent', settings.agent, 'write mcpServer({ agent: agent({ … }) })');
  const { agent, toolName = agentToolName(agent), maxTurns = 32, answerTimeoutMs = 600_000 } = settings;
  const hasStore = agent.options.taskStateStore !== undefined;
  const { keepUnanswered = hasStore } = settings;
  const own = hasStore ? undefined : new InMemoryStateStore({ maxEndedTasks: keptResults });
  const { stateKey = randomBytes(32) } = settings;
  const askable = own ? agent.with({ taskStateStore: own }) : agent;
  const waiting = new WaitingTurns({ agent: askable, keepUnanswered, answerTimeoutMs });
  return {
    agent: askable,
    ownMessages: own?.messages,
    toolName,
    keepUnanswered,
    answerTimeoutMs,
    stateKey,
    waiting,
    maxTurns,
    turns: 0,
  };
}

/** Of JSON-RPC 2.0. */
const invalidRequest = -32_600;

async function serveStreams(served: ServedAgent, { stdin, stdout }: StdioStreams, closing: AbortSignal): Promise<void> {
  const sdk = await loadServerSdk();
  const calls = new OpenCalls();
  const states = statesOf(served, sdk);
  const lines = new JsonLines((message) => {
    const error = { code: invalidRequest, message };
    stdout.write(`${JSON.stringify({ jsonrpc: '2.0', error, id: null })}\n`);
  });
  const transport = new sdk.StdioServerTransport(stdin.pipe(lines), stdout);
  const handle = sdk.serveStdio(({ era }) => agentServer({ sdk, served, states, calls, era, scope: 'local' }), {
    transport,
  });
  const leave = () => void handle.close();
  const over = new Promise<void>((resolve) => {
    const { onclose } = transport;
    transport.onclose = () => {
      onclose?.();
      resolve();
    };
  });
  /** At its end the lines end. */
  const leaveUnended = () => {
    if (!stdin.readableEnded) leave();
  };
  lines.once('end', leave);
  stdin.once('close', leaveUnended);
  stdin.on('error', leave);
  stdout.once('error', leave);
  const stopListening = onAbort(closing, leave);
  if (closing.aborted || stdin.readableEnded || stdin.destroyed) leave();
  await over;
  stdin.unpipe(lines);
  lines.destroy();
  stdin.off('close', leaveUnended);
  stdin.off('error', leave);
  stdout.off('error', leave);
  stopListening();
  await calls.close();
}

function statesOf({ answerTimeoutMs, stateKey: key }: ServedAgent, sdk: ServerSdk): RequestStates {
  return new RequestStates({ sdk, key, lifetimeMs: answerTimeoutMs });
}

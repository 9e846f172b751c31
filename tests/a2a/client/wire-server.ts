import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach } from '@jest/globals';
import type { Agent } from 'millrace';
import { type RemoteAgentOptions, remoteAgent } from 'millrace/a2a';
import { eventually } from '../../eventually.ts';

export type Json = Readonly<Record<string, unknown>>;

/** How a test answers one request; it writes the response by hand. */
export interface WireCall {
  readonly method: string;
  readonly params: Json;
  /** Answers with a result. */
  result(value: Json): void;
  error(code: number, message: string): void;
  /** Answers with an HTTP status, and an error in the form of the protocol. */
  status(status: number): void;
  /** Answers with an HTTP status, and JSON that is none of the protocol. */
  plain(status: number, value: Json): void;
  /** Sends events of a stream, which stays open. */
  events(...values: readonly Json[]): void;
  end(): void;
  /** Breaks the connection. */
  cut(): void;
}

/** How a server does not answer: nobody listens, a proxy says that it is down, or the process is stopped and reads nothing. */
export type Away = 'down' | 'HTTP 503' | 'silent';

/** By method. */
export type WireAnswers = Readonly<Record<string, (call: WireCall) => void>>;

export interface WireServerOptions {
  readonly streaming?: boolean;
  readonly extensions?: readonly string[];
  /** The origin of the interface that the card names. Default its own. */
  readonly at?: string;
  /** Added to the path of the interface that the card names, which answers nowhere else. Default none. */
  readonly path?: () => string;
  /** What it says in place of its card. */
  readonly card?: (card: Json) => Json | Promise<Json>;
}

export interface WireServer {
  readonly url: string;
  /** The methods that were asked, in order. */
  readonly methods: readonly string[];
  readonly calls: readonly Pick<WireCall, 'method' | 'params'>[];
  /** Responses that are not over. */
  readonly open: () => number;
  /** How many requests came while it was away; while it is down none does. */
  readonly missed: () => number;
  /** Breaks what is open, and answers nothing, the card neither, until it is back. */
  leave(how: Away): Promise<void>;
  back(): Promise<void>;
  close(): Promise<void>;
}

/** A server of A2A 1.0 over JSON-RPC whose every answer is the test's. */
async function wireServer(
  answers: WireAnswers,
  { streaming = true, extensions = [], at, path = () => '', card: shown = (own) => own }: WireServerOptions = {},
): Promise<WireServer> {
  const calls: Pick<WireCall, 'method' | 'params'>[] = [];
  const methods: string[] = [];
  let open = 0;
  let missed = 0;
  let away: Away | undefined;
  const server = createServer((request, response) => {
    open++;
    response.once('close', () => open--);
    if (away === undefined) return void answer(request, response);
    missed++;
    if (away === 'HTTP 503') response.writeHead(503).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const card = () => ({
    name: 'Wire',
    description: 'Answers by hand.',
    version: '1',
    supportedInterfaces: [{ url: `${at ?? url}${path()}`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
    // As servers of other languages write it: what is empty is left out.
    capabilities: { streaming, ...(extensions.length > 0 && { extensions: extensions.map((uri) => ({ uri })) }) },
  });
  return {
    url,
    methods,
    calls,
    open: () => open,
    missed: () => missed,
    async leave(how) {
      away = how;
      const closed = how === 'down' ? once(server.close(), 'close') : undefined;
      server.closeAllConnections();
      await closed;
    },
    async back() {
      if (away === 'down') await once(server.listen(port, '127.0.0.1'), 'listening');
      away = undefined;
      server.closeAllConnections();
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method === 'GET') {
      response.setHeader('content-type', 'application/json').end(JSON.stringify(await shown(card())));
      return;
    }
    if (request.url !== (path() || '/')) {
      response.writeHead(404).end();
      return;
    }
    const { id, method, params } = JSON.parse(await text(request));
    calls.push({ method, params });
    methods.push(method);
    const rpc = (body: Json) => JSON.stringify({ jsonrpc: '2.0', id, ...body });
    const whole = (body: Json) => response.setHeader('content-type', 'application/json').end(rpc(body));
    const handler = answers[method];
    const call: WireCall = {
      method,
      params,
      result: (result) => whole({ result }),
      error: (code, message) => whole({ error: { code, message } }),
      status: (status) => {
        const body = rpc({ error: { code: -32603, message: `HTTP ${status}` } });
        response.writeHead(status, { 'content-type': 'application/json' }).end(body);
      },
      plain(status, value) {
        response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
      },
      events(...values) {
        if (!response.headersSent) response.writeHead(200, { 'content-type': 'text/event-stream' });
        for (const result of values) response.write(`data: ${rpc({ result })}\n\n`);
      },
      end: () => response.end(),
      cut: () => request.socket.destroy(),
    };
    if (handler) handler(call);
    else call.error(-32601, 'Method not found');
  }
}

const serving = new Set<WireServer>();

/** Gives the servers of a file's tests, and closes them after each test: by then no turn has left a request open. */
export function wireServers(): typeof wireServer {
  afterEach(async () => {
    const servers = [...serving];
    // Also where the check fails: the test after this one has nothing to do with what this one left open.
    serving.clear();
    try {
      await eventually(() => servers.every((server) => server.open() === 0));
    } finally {
      await Promise.all(servers.map((server) => server.close()));
    }
  });
  return async (answers, options) => {
    const server = await wireServer(answers, options);
    serving.add(server);
    return server;
  };
}

export function connectTo({ url }: WireServer, options: Partial<RemoteAgentOptions> = {}): Promise<Agent> {
  return remoteAgent({ url, id: 'far', name: 'far', description: 'Far away.', contextId: 'c', ...options });
}

/** A task as the protocol's JSON has it. */
export function wireTask(state: string, texts: readonly string[] = [], more: Json = {}): Json {
  const parts = texts.map((each) => ({ text: each }));
  const artifacts = texts.length === 0 ? [] : [{ artifactId: 'a', parts }];
  return { id: 'remote-1', contextId: 'context-1', status: { state: `TASK_STATE_${state}` }, artifacts, ...more };
}

export function wireStatus(state: string): Json {
  return { statusUpdate: { taskId: 'remote-1', contextId: 'context-1', status: { state: `TASK_STATE_${state}` } } };
}

export function wireText(piece: string, append = true): Json {
  const artifact = { artifactId: 'a', parts: [{ text: piece }] };
  return { artifactUpdate: { taskId: 'remote-1', contextId: 'context-1', artifact, append } };
}

export const wireSubmitted: Json = { task: wireTask('SUBMITTED') };

/** A task that asks `Which one?`. */
export const wireAsking: Json = wireTask('INPUT_REQUIRED', [], {
  status: {
    state: 'TASK_STATE_INPUT_REQUIRED',
    message: { messageId: 'asked', role: 'ROLE_AGENT', parts: [{ text: 'Which one?' }] },
  },
});

/** Answers a message with a stream of the task that asks, and each question after it with that task. */
export const answersAsking: WireAnswers = {
  SendStreamingMessage(call) {
    call.events({ task: wireAsking });
    call.end();
  },
  GetTask: (call) => call.result(wireAsking),
};

/** Streams these updates after the task, and ends. */
export const answerStream =
  (...updates: readonly Json[]) =>
  (call: WireCall): void => {
    call.events(wireSubmitted, wireStatus('WORKING'), ...updates);
    call.end();
  };

export const answerCompleted =
  (...texts: readonly string[]) =>
  (call: WireCall): void =>
    call.result(wireTask('COMPLETED', texts));

export const answerCanceled = (call: WireCall): void => call.result(wireTask('CANCELED'));

/** The ids of the messages that came. */
export const messageIds = ({ calls }: WireServer): readonly unknown[] =>
  calls.flatMap(({ params }) => Object(params['message']).messageId ?? []);

export const pageOf = (...tasks: readonly Json[]): Json => ({
  tasks,
  nextPageToken: '',
  pageSize: 100,
  totalSize: tasks.length,
});

/** Answers `ListTasks` with one task, whose message has this id. */
export function listTask(call: WireCall, messageId: unknown, state = 'WORKING'): void {
  const history = [{ messageId, role: 'ROLE_USER', parts: [{ text: 'Go.' }] }];
  call.result(pageOf(wireTask(state, [], { history })));
}

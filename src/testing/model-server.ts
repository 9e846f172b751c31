import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import { AgentLoopError, messageOf } from '../core/contracts/index.ts';
import { type ChatBody, ModelDesk } from './model-server/model-desk.ts';
import type { ScriptStep } from './model-server/script-step.ts';

export interface ModelServerOptions {
  /** Default 0: a free one. */
  readonly port?: number | undefined;
  /** Default `127.0.0.1`. */
  readonly host?: string | undefined;
  /** The name of the model that it lists, and that it answers as where a request names none. Default `demo`. */
  readonly model?: string | undefined;
  /** Milliseconds before each chunk of an answer. Default 0. */
  readonly delayMs?: number | undefined;
  /** What to answer, one step a request. Absent: the demo model answers. */
  readonly script?: readonly ScriptStep[] | undefined;
  /** The largest body of a request. Default 16 MiB. */
  readonly maxBodyBytes?: number | undefined;
  /** How many requests are kept for looking at, the newest. Default 1,000. */
  readonly keepRequests?: number | undefined;
}

export interface ModelServer {
  /** `http://127.0.0.1:<port>`. */
  readonly url: string;
  /** What an OpenAI client takes as its base URL: `url` and `/v1`. */
  readonly baseUrl: string;
  readonly port: number;
  /** The bodies of the chat requests, the oldest first. */
  readonly requests: readonly ChatBody[];
  /** Their headers, with whatever key the client sent. */
  readonly headers: readonly IncomingHttpHeaders[];
  /** Chat requests that came in, that are being answered now, and whose client left before the answer was complete. */
  readonly received: number;
  readonly open: number;
  readonly aborted: number;
  /** Resolves once `count` chat requests came in. Rejects where the server closes before. */
  whenReceived(count: number): Promise<void>;
  /** Resolves once no chat request is being answered. */
  whenIdle(): Promise<void>;
  /** Throws where steps of the script are left, or where there was a request beyond the last step. */
  assertDone(): void;
  /** Ends all connections, also those in the middle of an answer, and frees the port. The second call does nothing. */
  close(): Promise<void>;
}

/**
 * An OpenAI-compatible HTTP server: `POST /v1/chat/completions`, streamed or not, `GET /v1/models`, `GET /health`. Without a
 * script it answers as the demo model does, `demoModel`; with one it plays the steps in order, and a request beyond
 * them is a 500 that says so. Equal requests get equal answers. A client that leaves stops its answer at once.
 *
 * Errors with `INVALID_CONFIG` where it cannot listen. Memory grows with the requests kept. It checks no key: keep it on
 * the loopback. Source: OpenAI's API reference, chat completions.
 */
export async function startModelServer(options: ModelServerOptions = {}): Promise<ModelServer> {
  const { host = '127.0.0.1' } = options;
  const desk = new ModelDesk({
    model: options.model ?? 'demo',
    delayMs: options.delayMs ?? 0,
    script: options.script,
    maxBodyBytes: options.maxBodyBytes ?? 16 * 1024 * 1024,
    keepRequests: options.keepRequests ?? 1_000,
  });
  const server = createServer((request, response) => void desk.handle(request, response));
  const port = await listen(server, options.port ?? 0, host);
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    desk.close();
    return new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  };
  return {
    url,
    baseUrl: `${url}/v1`,
    port,
    requests: desk.requests,
    headers: desk.headers,
    get received() {
      return desk.received;
    },
    get open() {
      return desk.open;
    },
    get aborted() {
      return desk.aborted;
    },
    whenReceived: (count) => desk.when(() => desk.received >= count),
    whenIdle: () => desk.when(() => desk.open === 0),
    assertDone: () => desk.assertDone(),
    close: () => {
      closed ??= close();
      return closed;
    },
  };
}

function listen(server: Server, port: number, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const fail = (cause: unknown): void => {
      const message = `Cannot listen on port ${port} of ${host} (${messageOf(cause)}); choose another port or host.`;
      reject(new AgentLoopError('INVALID_CONFIG', message, { cause }));
    };
    server.once('error', fail);
    try {
      server.listen(port, host, () => {
        const address = server.address();
        resolve(typeof address === 'object' && address !== null ? address.port : port);
      });
    } catch (error) {
      fail(error);
    }
  });
}

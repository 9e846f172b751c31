import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { AgentLoopError, isObject, messageOf } from '../core/contracts/index.ts';
import { demoModel } from './demo-model.ts';
import { ApiError, type ChatRequest, chatRequestOf, type ModelReply } from './model-server/chat-request.ts';
import {
  type AnswerStep,
  answerOf,
  cutReply,
  type Exchange,
  exchangeOf,
  isRefusal,
  readBody,
  type ScriptedAnswer,
  type ScriptStep,
  sendJson,
  sendRefusal,
  sendStream,
  sendWhole,
} from './model-server/exchange.ts';

/** Options of `startModelServer`: where it listens, and how it answers. */
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

/** A server that speaks the OpenAI chat API and answers by fixed rules or by a script. */
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
  /** Requests whose answer is not complete. */
  readonly open: number;
  /** Requests that the client left. */
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
  const endpoint = new ChatEndpoint({
    model: options.model ?? 'demo',
    delayMs: options.delayMs ?? 0,
    script: options.script,
    maxBodyBytes: options.maxBodyBytes ?? 16 * 1024 * 1024,
    keepRequests: options.keepRequests ?? 1_000,
  });
  const server = createServer((request, response) => void endpoint.handle(request, response));
  const port = await listen(server, options.port ?? 0, host);
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    endpoint.close();
    return new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  };
  return {
    url,
    baseUrl: `${url}/v1`,
    port,
    requests: endpoint.requests,
    headers: endpoint.headers,
    get received() {
      return endpoint.received;
    },
    get open() {
      return endpoint.open;
    },
    get aborted() {
      return endpoint.aborted;
    },
    whenReceived: (count) => endpoint.when(() => endpoint.received >= count),
    whenIdle: () => endpoint.when(() => endpoint.open === 0),
    assertDone: () => endpoint.assertDone(),
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

/** A request's body as it was sent. */
export type ChatBody = Readonly<Record<string, unknown>>;

interface ChatEndpointOptions {
  readonly model: string;
  readonly delayMs: number;
  readonly script: readonly ScriptStep[] | undefined;
  readonly maxBodyBytes: number;
  readonly keepRequests: number;
}

interface Waiter {
  readonly isMet: () => boolean;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

const methods: ReadonlyMap<string, 'GET' | 'POST'> = new Map([
  ['/chat/completions', 'POST'],
  ['/models', 'GET'],
  ['/health', 'GET'],
]);

/** Takes the requests of one server, answers them and counts them. */
class ChatEndpoint {
  readonly requests: ChatBody[] = [];
  readonly headers: IncomingHttpHeaders[] = [];
  received = 0;
  open = 0;
  aborted = 0;
  readonly #options: ChatEndpointOptions;
  readonly #waiters = new Set<Waiter>();
  #asked = 0;
  #closed = false;

  constructor(options: ChatEndpointOptions) {
    this.#options = options;
  }

  /** Never rejects: what goes wrong is the response. */
  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const exchange = exchangeOf(response);
    try {
      await this.#route(request, exchange);
    } catch (error) {
      const refusal = error instanceof ApiError ? error : new ApiError(500, messageOf(error));
      if (response.headersSent) exchange.breakOff();
      else sendJson(response, refusal.status, refusal.body());
    }
  }

  /** Resolves once `isMet`, rejects where the server closes before. */
  when(isMet: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiters.add({ isMet, resolve, reject });
      this.#notify();
    });
  }

  assertDone(): void {
    const steps = this.#options.script?.length ?? this.#asked;
    if (this.#asked === steps) return;
    const cure =
      this.#asked > steps ? 'add a step, or find the unexpected request' : 'take out the steps that are not used';
    throw new AgentLoopError('INVALID_CONFIG', `${scriptAndRequests(steps, this.#asked)}; ${cure}.`);
  }

  close(): void {
    this.#closed = true;
    this.#notify();
  }

  async #route(request: IncomingMessage, exchange: Exchange): Promise<void> {
    const path = new URL(request.url ?? '/', 'http://localhost').pathname.replace(/^\/v1(?=\/)/, '');
    const method = methods.get(path);
    if (method === undefined) throw new ApiError(404, `Unknown request URL: ${request.method} ${request.url}.`);
    if (request.method !== method) {
      exchange.response.setHeader('allow', method);
      throw new ApiError(405, `${path} takes ${method}, not ${request.method}.`);
    }
    if (path === '/health') sendJson(exchange.response, 200, { status: 'ok' });
    else if (path === '/models') sendJson(exchange.response, 200, modelList(this.#options.model));
    else await this.#chat(parseJson(await readBody(request, this.#options.maxBodyBytes)), request.headers, exchange);
  }

  async #chat(body: ChatBody, headers: IncomingHttpHeaders, exchange: Exchange): Promise<void> {
    this.#register(body, headers);
    void exchange.over.then((left) => this.#finish(left));
    const request = chatRequestOf(body);
    const step = this.#stepFor(body, request);
    if (isRefusal(step)) return sendRefusal(exchange, step);
    const made = answerOf(request, replyOf(step), step.model ?? request.model ?? this.#options.model);
    const answer = step.usage === undefined ? made : { ...made, usage: step.usage };
    const delayMs = step.delayMs ?? this.#options.delayMs;
    const delivery = { answer, step, delayMs, includeUsage: request.includeUsage };
    return request.stream ? sendStream(exchange, delivery) : sendWhole(exchange, delivery);
  }

  #stepFor(body: ChatBody, request: ChatRequest): ScriptedAnswer {
    const { script } = this.#options;
    if (script === undefined) return cutReply(demoModel(request), request.maxTokens);
    this.#asked += 1;
    const step = script[this.#asked - 1];
    if (step === undefined) throw new ApiError(500, `${scriptAndRequests(script.length, this.#asked)}.`);
    return typeof step === 'function' ? step(body) : step;
  }

  #register(body: ChatBody, headers: IncomingHttpHeaders): void {
    this.received += 1;
    this.open += 1;
    this.requests.push(body);
    this.headers.push(headers);
    if (this.requests.length > this.#options.keepRequests) {
      this.requests.shift();
      this.headers.shift();
    }
    this.#notify();
  }

  #finish(left: boolean): void {
    this.open -= 1;
    if (left && !this.#closed) this.aborted += 1;
    this.#notify();
  }

  #notify(): void {
    for (const waiter of this.#waiters) {
      if (waiter.isMet()) waiter.resolve();
      else if (this.#closed) waiter.reject(new AgentLoopError('SHUTDOWN', 'The model server closed before that.'));
      else continue;
      this.#waiters.delete(waiter);
    }
  }
}

function replyOf(step: AnswerStep): ModelReply {
  const { toolCalls, ...rest } = step;
  if (toolCalls === undefined) return rest;
  const calls = toolCalls.map((call) => ({
    ...call,
    arguments: typeof call.arguments === 'string' ? call.arguments : JSON.stringify(call.arguments ?? {}),
  }));
  return { ...rest, toolCalls: calls };
}

function scriptAndRequests(steps: number, requests: number): string {
  return `The script of the model server has ${steps} steps and got ${requests} requests`;
}

function modelList(model: string): object {
  return { object: 'list', data: [{ id: model, object: 'model', created: 0, owned_by: 'millrace' }] };
}

function parseJson(text: string): ChatBody {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    throw new ApiError(400, `The body is not JSON: ${messageOf(error)}.`);
  }
  if (!isObject(body)) throw new ApiError(400, 'The body is not a JSON object.');
  return body;
}

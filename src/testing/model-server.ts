import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { AgentLoopError, isObject, messageOf, shownValue } from '../core/contracts/index.ts';
import { assertKnownOptions, type OptionNames } from '../options/option-rules.ts';
import { type ProfileName, profileNames } from '../providers/profiles.ts';
import { ApiError, type ModelReply } from './model-server/chat-request.ts';
import {
  type AnswerStep,
  checkScriptStep,
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
import { openSpeaker, strictSpeaker } from './model-server/speakers.ts';
import type { Asked, ChatBody, Route, Speaker } from './model-server/wire.ts';

export type { ChatBody } from './model-server/wire.ts';

/** Options of `startModelServer`: where it listens, and how it answers. */
export interface ModelServerOptions {
  /** Default 0: a free one. */
  readonly port?: number | undefined;
  /** Default `127.0.0.1`. */
  readonly host?: string | undefined;
  /**
   * Speaks the wire of that vendor and refuses what the vendor refuses, with a message that names the rule. Absent: chat completions, without
   * the rules of a vendor.
   */
  readonly strict?: ProfileName | undefined;
  /**
   * The name of the model that it lists, and that it answers as where a request names none. Default `demo`. A strict server knows no
   * other model if this is given, and any model if not.
   */
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

const optionNames: OptionNames<ModelServerOptions> = {
  port: true,
  host: true,
  strict: true,
  model: true,
  delayMs: true,
  script: true,
  maxBodyBytes: true,
  keepRequests: true,
};

/** A server that speaks the OpenAI chat API, or the wire of another vendor, and answers by fixed rules or by a script. */
export interface ModelServer {
  /** `http://127.0.0.1:<port>`. */
  readonly url: string;
  /** What a client of the wire takes as its base URL: `url` and `/v1`, or `/v1beta` for Google's. */
  readonly baseUrl: string;
  readonly port: number;
  /** The bodies of the requests to the model, the oldest first. */
  readonly requests: readonly ChatBody[];
  /** Their headers, with whatever key the client sent. */
  readonly headers: readonly IncomingHttpHeaders[];
  /** Requests to the model that came in, that are being answered now, and whose client left before the answer was complete. */
  readonly received: number;
  /** Requests whose answer is not complete. */
  readonly open: number;
  /** Requests that the client left. */
  readonly aborted: number;
  /** Resolves once `count` requests to the model came in. Rejects where the server closes before. */
  whenReceived(count: number): Promise<void>;
  /** Resolves once no request is being answered. */
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
 * `strict` names a vendor: the server then speaks its wire (`openai-responses`: `POST /v1/responses`; `anthropic`: `/v1/messages`; `google`, `vertex`:
 * `/v1beta/models/M:generateContent` and `:streamGenerateContent`; all others: chat completions), and answers 400 in the vendor's form to what the
 * rules of the vendor and the model refuse. What it gives for itself (signatures, encrypted reasoning) has to come back with the message
 * that it belongs to, and is valid at no other server. A refused request takes no step of the script.
 *
 * Errors with `INVALID_CONFIG` where it cannot listen, or for a vendor that it does not know. Memory grows with the requests kept. It checks no key: keep it on
 * the loopback. Source: OpenAI's API reference, chat completions.
 */
export async function startModelServer(options: ModelServerOptions = {}): Promise<ModelServer> {
  assertKnownOptions('startModelServer', options, optionNames);
  const { host = '127.0.0.1', strict, script = [] } = options;
  for (const [index, step] of script.entries()) if (typeof step !== 'function') checkScriptStep(step, index + 1);
  const speaker = strict === undefined ? openSpeaker() : strictSpeaker(checkedProfile(strict), options.model);
  const endpoint = new ChatEndpoint({
    speaker,
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
    baseUrl: `${url}${speaker.base}`,
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

/** {@link startModelServer} under a shorter name. */
export function modelServer(options?: ModelServerOptions): Promise<ModelServer> {
  return startModelServer(options);
}

function checkedProfile(strict: ProfileName): ProfileName {
  if (profileNames.includes(strict)) return strict;
  const message = `startModelServer: strict must be one of ${profileNames.join(', ')}, not ${shownValue(strict)}.`;
  throw new AgentLoopError('INVALID_CONFIG', message);
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

interface ChatEndpointOptions {
  readonly speaker: Speaker;
  readonly model: string;
  readonly delayMs: number;
  readonly script: readonly ScriptStep[] | undefined;
  readonly maxBodyBytes: number;
  readonly keepRequests: number;
}

interface ModelRequest {
  readonly body: ChatBody;
  readonly route: Route;
  readonly headers: IncomingHttpHeaders;
}

interface Waiter {
  readonly isMet: () => boolean;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

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
      else sendJson(response, refusal.status, this.#options.speaker.form.refusal(refusal));
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
    const { speaker, model, maxBodyBytes } = this.#options;
    const path = new URL(request.url ?? '/', 'http://localhost').pathname;
    const route = speaker.route(path);
    const name = path.replace(/^\/v1(?:beta)?(?=\/)/, '');
    const isList = name === '/models';
    if (route === undefined && !isList && name !== '/health')
      throw new ApiError(404, `Unknown request URL: ${request.method} ${request.url}.`);
    const method = route === undefined ? 'GET' : 'POST';
    if (request.method !== method) {
      exchange.response.setHeader('allow', method);
      throw new ApiError(405, `${name} takes ${method}, not ${request.method}.`);
    }
    if (route !== undefined) {
      const body = parseJson(await readBody(request, maxBodyBytes));
      await this.#answer({ body, route, headers: request.headers }, exchange);
    } else sendJson(exchange.response, 200, isList ? modelList(model) : { status: 'ok' });
  }

  async #answer({ body, route, headers }: ModelRequest, exchange: Exchange): Promise<void> {
    const { speaker, model } = this.#options;
    this.#register(body, headers);
    void exchange.over.then((left) => this.#finish(left));
    const asked = speaker.ask(body, route);
    const { request } = asked;
    const step = this.#stepFor(body, asked);
    if (isRefusal(step)) return sendRefusal(exchange, step, speaker.form);
    const made = asked.answer(replyOf(step), step.model ?? request.model ?? model);
    const usage = step.usage === undefined ? made.usage : step.usage;
    const answer = { ...made, usage: request.stream && !request.includeUsage ? null : usage };
    const delivery = { answer, step, delayMs: step.delayMs ?? this.#options.delayMs, form: speaker.form };
    return request.stream ? sendStream(exchange, delivery) : sendWhole(exchange, delivery);
  }

  #stepFor(body: ChatBody, asked: Asked): ScriptedAnswer {
    const { script } = this.#options;
    if (script === undefined) return asked.demo();
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

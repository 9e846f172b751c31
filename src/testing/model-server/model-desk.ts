import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { AgentLoopError, messageOf } from '../../core/contracts/index.ts';
import { demoModel } from '../demo-model.ts';
import { ApiError, type ChatRequest, chatRequestOf, isObject, type ModelReply } from './chat-request.ts';
import { type Exchange, exchangeOf, readBody, sendJson, sendRefusal, sendStream, sendWhole } from './exchange.ts';
import { answerOf, cutReply } from './model-answer.ts';
import { type AnswerStep, isRefusal, type ScriptedAnswer, type ScriptStep } from './script-step.ts';

/** A request's body as it was sent. */
export type ChatBody = Readonly<Record<string, unknown>>;

export interface ModelDeskOptions {
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
export class ModelDesk {
  readonly requests: ChatBody[] = [];
  readonly headers: IncomingHttpHeaders[] = [];
  received = 0;
  open = 0;
  aborted = 0;
  readonly #options: ModelDeskOptions;
  readonly #waiters = new Set<Waiter>();
  #asked = 0;
  #closed = false;

  constructor(options: ModelDeskOptions) {
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

import type { Agent } from '../../agent/agent.ts';
import {
  type AgentEvent,
  innermostQuestion,
  invalidConfig,
  isSuspended,
  type Message,
  systemClock,
  type TaskState,
} from '../../core/contracts/index.ts';
import type { Question } from '../../core/journal/index.ts';
import { onAbort } from '../../core/streams/index.ts';
import { isOpening } from '../../core/turn/index.ts';
import { Chat, ChatRecovery, type Followed, kindOf, ofOneTask } from '../chats.ts';
import { type Encoder, type EventSource, iteratorOf, responseOf, streamOf } from '../event-stream.ts';
import {
  type FetchHandler,
  type HandlerOptions,
  type ResolvedHandler,
  resolveHandler,
  scopeFor,
} from '../handler-options.ts';
import { digestOf, jsonBody, noStore, notFound, Refusal, refusalOf } from '../requests.ts';
import { CompletionEncoder } from './chat-completions.ts';
import { chatRequest, ParameterRefusal, type ResponseRequest, responseRequest } from './requests.ts';
import { itemTypes, ofItem, ResponseEncoder, type ResponseItem } from './responses.ts';
import { failed, noRetry, refusedAs } from './wire.ts';

/** Options of the handlers for clients of the API of OpenAI. */
export interface OpenAIHandlerOptions extends Omit<HandlerOptions, 'agent'> {
  /** The agents, by whose ids clients ask for a `model`. Each needs a `taskStateStore`. */
  readonly agents: readonly Agent[];
  /** What becomes of system and developer messages and of `instructions`. `'ignore'` (default): nothing; the agent has its own. `'append'`: they are part of the conversation. */
  readonly clientInstructions?: 'ignore' | 'append' | undefined;
}

/**
 * Serves agents to clients of OpenAI's API, wherever it is mounted: `GET …/models`, `POST …/chat/completions`, `POST …/responses`, `GET …/responses/<id>` and
 * `POST …/responses/<id>/cancel`. `model` is the id of an agent, and a request is one turn of it.
 *
 * Chat completions: the messages of the request are the whole conversation, and nothing is remembered. A client that disconnects cancels the turn; a turn that
 * asks something is cancelled, and its error has the code `approval_required` or `input_required`. Responses: `previous_response_id` continues a conversation, from any of
 * its responses; calls that wait for an approval are `mcp_approval_request` items, which `mcp_approval_response` answers; `onDisconnect` says what becomes of a turn whose client disconnects.
 *
 * Tools run here and are never sent as `tool_calls`; `tools` and `reasoning` say what of them is shown. Parameters that would change what the agent does, such as `tools`, are 400 and named;
 * those that tune a model, such as `temperature`, are the agent's and ignored. A request with an `Idempotency-Key` that was used attaches to its turn. Errors of a turn have a fixed
 * sentence, and the status 400, which no client repeats by itself: `type` and `code` say what failed. Errors: `INVALID_CONFIG`.
 */
export function openAIHandler(options: OpenAIHandlerOptions): FetchHandler {
  const { agents, clientInstructions = 'ignore', ...common } = options;
  if (!Array.isArray(agents) || agents.length === 0)
    throw invalidConfig('agents must be an array of at least one Agent', 'give [agent({ … })]');
  if (clientInstructions !== 'ignore' && clientInstructions !== 'append')
    throw invalidConfig('clientInstructions is not valid', 'it must be "ignore" or "append"');
  const models = new Map(agents.map((agent) => [agent.id, new Model(resolveHandler({ ...common, agent }), options)]));
  if (models.size < agents.length) throw invalidConfig('two agents have the same id', 'use a different id for each');
  const [first] = models.values();
  const handle = async (request: Request): Promise<Response> => {
    try {
      return await answer(models, request);
    } catch (error) {
      const errorText = first?.handler.shown.errorText;
      const refusal = refusalOf(error, errorText ?? String);
      // A client that left in the middle of its body is no failure of the server.
      if (refusal.status >= 500 && !request.signal.aborted)
        agents[0]?.options.logger?.warn('request failed', { code: refusal.code });
      return refusedAs(refusal, error instanceof ParameterRefusal ? error.param : null);
    }
  };
  return Object.assign(handle, {
    start: () => startRecovery(models),
    close: () => {
      for (const { recovery } of models.values()) recovery.close();
    },
  });
}

type Models = ReadonlyMap<string, Model>;

function startRecovery(models: Models): void {
  for (const { recovery } of models.values()) recovery.start();
}

const paths = /\/(models|chat\/completions|responses)(?:\/([^/]+))?(\/cancel)?\/?$/;

async function answer(models: Models, request: Request): Promise<Response> {
  const [, path, id, cancel] = paths.exec(new URL(request.url).pathname) ?? [];
  const [model] = models.values();
  if (path === undefined || !model) throw notFound();
  await scopeFor(model.handler, request);
  startRecovery(models);
  const route = `${request.method} ${path}${id === undefined ? '' : '/:id'}${cancel ?? ''}`;
  switch (route) {
    case 'GET models':
      return Response.json({ object: 'list', data: [...models.keys()].map(listed) });
    case 'GET models/:id':
      return Response.json(listed(modelOf(models, id).handler.agent.id));
    case 'POST chat/completions': {
      const body = await jsonBody(request, model.handler.maxBodyBytes);
      return modelOf(models, body['model']).complete(request, body);
    }
    case 'POST responses': {
      const body = await jsonBody(request, model.handler.maxBodyBytes);
      return modelOf(models, body['model']).respond(request, body);
    }
    case 'GET responses/:id':
    case 'POST responses/:id/cancel':
      for (const each of models.values()) {
        const found = await each.find(request, id ?? '');
        if (found) return cancel === undefined ? each.show(found, request) : each.cancel(found);
      }
      throw notFound();
    default:
      throw new Refusal(405, 'INVALID_INPUT', 'The method is not allowed here.');
  }
}

function modelOf(models: Models, id: unknown): Model {
  const model = typeof id === 'string' ? models.get(id) : undefined;
  if (model) return model;
  throw new ParameterRefusal('model', 'There is no such model.', { status: 404, code: 'model_not_found' });
}

function listed(id: string) {
  return { id, object: 'model', created: 0, owned_by: 'millrace' };
}

/** A response that a client names. */
interface Found {
  readonly chat: Chat;
  readonly taskId: string;
  readonly id: string;
  readonly state: TaskState;
  /** Whether it has not ended, and no process runs it. */
  readonly isAbandoned: boolean;
}

function isOpen(state: TaskState): boolean {
  return state === 'working' || state === 'submitted';
}

/** `resp_`, the conversation, the turn, and the number of answers before it, where there are some. */
const responseId = /^resp_([\w-]{22})([\w-]{43})(?:\.\d+)?$/;

/** How long a completion whose server is gone waits for its client to come back with its `Idempotency-Key`. */
const keyedMs = 10 * 60_000;
/** How many turns that nobody runs are looked at at a time. */
const mostAbandoned = 1_000;

/** An agent as a model. */
class Model {
  readonly handler: ResolvedHandler;
  readonly recovery: ChatRecovery;
  readonly #appends: boolean;

  constructor(handler: ResolvedHandler, { clientInstructions }: OpenAIHandlerOptions) {
    this.handler = handler;
    this.recovery = new ChatRecovery(handler, () => this.#endAbandoned());
    this.#appends = clientInstructions === 'append';
  }

  async complete(request: Request, body: Readonly<Record<string, unknown>>): Promise<Response> {
    const { messages, stream, includeUsage, metadata } = chatRequest(body, this.#limits);
    const key = await keyOf(request);
    // Contexts of their own kinds: a turn whose process died is not continued by itself.
    const kind = request.headers.has('idempotency-key') ? 'keyed' : 'completion';
    const chat = await Chat.of(this.handler, request, key, { kind, isStreamed: stream });
    const followed = await chat.start(key, messages, { detached: false });
    const id = `chatcmpl-${await chat.taskOf(key)}`;
    const encoder = new CompletionEncoder({ ...this.#common(id), includeUsage, metadata, isStreamed: stream });
    const answered = this.#untilAsked(followed, () => true);
    if (stream) return this.#stream(answered, encoder, (chunk) => `data: ${JSON.stringify(chunk)}\n\n`);
    await readAll(answered, encoder, request.signal);
    const { completion, error } = encoder.whole;
    return error ? failed(error) : Response.json(completion, { headers: noStore });
  }

  async respond(request: Request, body: Readonly<Record<string, unknown>>): Promise<Response> {
    const resolve = this.#itemsOf(request);
    const { messages, stream, previous, approvals, answeredBefore, echo } = await responseRequest(
      body,
      this.#limits,
      resolve,
    );
    const key = await keyOf(request);
    const [asking] = approvals.keys();
    const named = previous ?? (asking === undefined ? undefined : ofItem(asking)?.response);
    const before = named === undefined ? undefined : await this.find(request, named, stream);
    if (previous !== undefined && !before)
      throw new ParameterRefusal('previous_response_id', 'There is no such response.', {
        status: 404,
        code: 'NOT_FOUND',
      });
    if (approvals.size > 0) return this.#approve(before, { approvals, messages, stream, echo, request });
    for (const id of answeredBefore) {
      const found = await this.find(request, ofItem(id)?.response ?? '');
      if (found && isSuspended(found.state))
        throw new ParameterRefusal('input', 'An approval must be at the end of the input: no message can follow it.');
    }
    const conversation = before?.id.slice(5, 27) ?? key.slice(0, 22);
    const newest = await before?.chat.newest();
    const isRepeated = before && (await this.handler.store.describe(await before.chat.taskOf(key))) !== null;
    if (before) await this.#over(before, request);
    if (before && !isRepeated && isSuspended((await before.chat.own(before.taskId)).state))
      throw new ParameterRefusal(
        'input',
        'The response waits for an approval: answer it with an mcp_approval_response, or cancel the response.',
        { code: 'AGENT_BUSY' },
      );
    const chat = before?.chat ?? (await Chat.of(this.handler, request, conversation, { isStreamed: stream }));
    const after = before?.taskId === newest ? undefined : before?.taskId;
    const followed = await chat.start(key, messages, { after });
    const id = `resp_${conversation}${await chat.taskOf(key)}`;
    return this.#responded(followed, { id, previous: previous ?? null, stream, echo, request });
  }

  /** `messages`: what the client sent before its approvals. */
  async #approve(
    before: Found | undefined,
    {
      approvals,
      messages,
      stream,
      echo,
      request,
    }: {
      readonly approvals: ReadonlyMap<string, unknown>;
      readonly messages: readonly Message[];
      readonly stream: boolean;
      readonly echo: ResponseRequest['echo'];
      readonly request: Request;
    },
  ): Promise<Response> {
    if (!before) throw notFound();
    const questions = [...approvals].map(([id, answer]) => [ofItem(id)?.question ?? '', answer] as const);
    const { taskId, answers } = ofOneTask(new Map(questions));
    if (taskId !== before.taskId) throw notFound();
    await this.#checkKnown(taskId, messages);
    const followed = await before.chat.answer({ taskId, answers });
    const [base, count = '0'] = before.id.split('.');
    const id = `${base}.${Number(count) + 1}`;
    return this.#responded(followed, { id, previous: before.id, stream, echo, request });
  }

  /** Clients that keep the history send it before an approval. What the turn does not have is a new message, which would be lost. */
  async #checkKnown(taskId: string, messages: readonly Message[]): Promise<void> {
    const [first] = await this.handler.store.read(taskId);
    const known = first?.type === 'turn.started' ? first.messages.map(contentOf) : [];
    const isNew = (message: Message) => message.role === 'user' && !known.includes(contentOf(message));
    if (messages.some(isNew))
      throw new ParameterRefusal('input', 'input must have either messages or approvals, not both.');
  }

  /** What items of earlier responses are, by their ids. A turn is read once. */
  #itemsOf(request: Request): (id: string) => Promise<unknown> {
    const read = new Map<string, Promise<readonly ResponseItem[]>>();
    return async (id) => {
      const named = ofItem(id);
      if (!named) return undefined;
      const { kind, response } = named;
      if (kind !== 'msg') return { type: itemTypes[kind], id };
      const items = read.get(response) ?? this.#outputOf(request, response);
      read.set(response, items);
      const found = (await items).find((item) => item.id === id);
      return found && { type: 'message', role: 'assistant', content: found['content'] };
    };
  }

  async #outputOf(request: Request, id: string): Promise<readonly ResponseItem[]> {
    const found = await this.find(request, id);
    if (!found) return [];
    const encoder = new ResponseEncoder({ ...this.#common(id), previous: null, isStreamed: false });
    await readAll(found.chat.observe(found.taskId).source, encoder, request.signal);
    return encoder.items;
  }

  /** The response that an id names, where it is of the request's owner and of this agent. `isStreamed`: as of `Chat`. */
  async find(request: Request, id: string, isStreamed = false): Promise<Found | undefined> {
    const [, conversation, taskId] = responseId.exec(id) ?? [];
    if (conversation === undefined || taskId === undefined) return undefined;
    const chat = await Chat.of(this.handler, request, conversation, { isStreamed });
    try {
      const { state, held } = await chat.own(taskId);
      return { chat, id, taskId, state, isAbandoned: isOpen(state) && !held };
    } catch (error) {
      if (error instanceof Refusal && error.status === 404) return undefined;
      throw error;
    }
  }

  /** Waits for the end of a response that is continued, also of one whose process died; one that asks what nobody can answer here ends. */
  async #over({ chat, taskId, id, state }: Found, request: Request): Promise<void> {
    if (!isOpen(state) && !isSuspended(state)) return;
    const encoder = new ResponseEncoder({ ...this.#common(id), previous: null, isStreamed: false });
    await readAll(this.#untilAsked(chat.observe(taskId), isUnanswerable), encoder, request.signal);
    request.signal.throwIfAborted();
  }

  /** Cancels completions whose server is gone: their clients are, too. One with an `Idempotency-Key` waits for its client for a while. */
  async #endAbandoned(): Promise<void> {
    const { agent, store } = this.handler;
    const { clock = systemClock, leaseMs = 30_000 } = agent.options;
    const query = { runnable: true, roots: true, agentId: agent.id, limit: mostAbandoned };
    for (const task of await store.list(query)) {
      const kind = kindOf(task);
      const idleMs = clock.now() - Date.parse(task.updatedAt);
      const waitMs = kind === 'keyed' ? keyedMs : 0;
      const isLeft = (kind === 'completion' || kind === 'keyed') && !isOpening(task, { store, clock, leaseMs });
      // A store that does not know `runnable` gives all tasks.
      if (isLeft && idleMs >= waitMs && isOpen(task.state) && !task.held)
        await agent.cancel(task.taskId, 'its server ended before it did');
    }
  }

  /** As it stands, without waiting for it; with `stream=true` from its beginning to its end. A turn whose process died is continued. */
  async show({ chat, taskId, id, state, isAbandoned }: Found, request: Request): Promise<Response> {
    const query = new URL(request.url).searchParams;
    if (query.has('starting_after'))
      throw new ParameterRefusal(
        'starting_after',
        'starting_after is not supported: a stream begins at its beginning.',
      );
    if (query.get('stream') === 'true')
      return this.#responded(chat.observe(taskId), { id, previous: null, stream: true, request });
    if (isAbandoned) this.recovery.take(taskId);
    return this.#shown({ chat, taskId, id, isOver: !isOpen(state) });
  }

  async #shown({ chat, taskId, id, isOver }: Omit<Found, 'state' | 'isAbandoned'> & { readonly isOver: boolean }) {
    const encoder = new ResponseEncoder({ ...this.#common(id), previous: null, isStreamed: false });
    if (isOver) await readAll(chat.observe(taskId).source, encoder);
    return Response.json(encoder.response, { headers: noStore });
  }

  async cancel(found: Found): Promise<Response> {
    await this.handler.agent.cancel(found.taskId, 'stopped by the user');
    return this.#shown({ ...found, isOver: true });
  }

  async #responded(
    followed: Followed,
    {
      id,
      previous,
      stream,
      echo,
      request,
    }: {
      readonly id: string;
      readonly previous: string | null;
      readonly stream: boolean;
      readonly echo?: ResponseRequest['echo'];
      readonly request: Request;
    },
  ): Promise<Response> {
    const { from, answered } = followed;
    const encoder = new ResponseEncoder({ ...this.#common(id), previous, from, answered, echo, isStreamed: stream });
    const shown = this.#untilAsked(followed, isUnanswerable);
    const frame = (event: Readonly<Record<string, unknown>>) =>
      `event: ${event['type']}\ndata: ${JSON.stringify(event)}\n\n`;
    if (stream) return this.#stream(shown, encoder, frame);
    await readAll(shown, encoder, request.signal);
    return Response.json(encoder.response, { headers: { ...noStore, ...noRetry } });
  }

  #stream<T>(source: EventSource, encoder: Encoder<T>, frame: (item: T) => string): Response {
    const { heartbeatMs } = this.handler;
    return responseOf(streamOf(source, { encoder, frame, last: 'data: [DONE]\n\n', heartbeatMs }));
  }

  get #limits() {
    return { maxMessages: this.handler.maxMessages, appends: this.#appends };
  }

  #common(id: string) {
    const { tools, reasoning, errorText, agent } = this.handler;
    return { tools, reasoning, errorText, model: agent.id, id, created: Math.floor(Date.now() / 1_000) };
  }

  /** Cancels a turn that asks what nobody can answer here, also where its client has left by then or does not read. */
  #untilAsked({ source, turn }: Followed, isUnanswerable: (question: Question) => boolean): EventSource {
    const { agent } = this.handler;
    const cancelIfAsked = async (taskId: string, questions: readonly Question[] = []) => {
      if (questions.some(isUnanswerable)) await agent.cancel(taskId, 'The client cannot answer.');
    };
    // A turn that this process loses is left to the next one.
    turn?.settled.then(() => cancelIfAsked(turn.taskId, turn.state?.outcome?.questions)).catch(() => {});
    const events = iteratorOf(source);
    const iterator: AsyncIterator<AgentEvent> = {
      async next() {
        const next = await events.next();
        if (next.done || next.value.kind !== 'status-update' || !next.value.final) return next;
        await cancelIfAsked(next.value.taskId, next.value.questions);
        return next;
      },
      async return() {
        return (await events.return?.()) ?? { done: true, value: undefined };
      },
    };
    return { [Symbol.asyncIterator]: () => iterator };
  }
}

function contentOf({ content }: Message): string {
  return JSON.stringify(content);
}

/** Of the questions only approvals are items of a response. */
function isUnanswerable(question: Question): boolean {
  return innermostQuestion(question).kind !== 'approval';
}

/** Reads a turn to its end; leaves it where the client does. */
async function readAll(source: EventSource, encoder: Encoder<unknown>, signal?: AbortSignal): Promise<void> {
  const events = iteratorOf(source);
  const leave = () => void events.return?.();
  const stopListening = signal && onAbort(signal, leave);
  if (signal?.aborted) leave();
  try {
    for (let next = await events.next(); !next.done; next = await events.next()) encoder.encode(next.value);
  } catch (error) {
    encoder.lost(error);
  } finally {
    stopListening?.();
  }
}

/** What names the turn of a request: the same for requests with the same key. */
async function keyOf(request: Request): Promise<string> {
  return digestOf('request', request.headers.get('idempotency-key') ?? crypto.randomUUID());
}

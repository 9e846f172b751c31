import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FinishReason, Usage } from '../../core/contracts/index.ts';
import { ApiError, type ChatCall, type ChatRequest, type ModelReply } from './chat-request.ts';

/** A tool call of a scripted answer. */
export interface ScriptCall {
  readonly name: string;
  /** An object, sent as JSON, or a string, sent unchanged. Default `{}`. */
  readonly arguments?: object | string;
  /** Default: made from the request. `''` sends an empty one. */
  readonly id?: string;
}

/**
 * Waited for on the server's side: a promise once, before the first chunk; a function before each chunk, with its number
 * from 0, where it returns a promise. Waiting ends when the client leaves.
 */
export type StepGate = Promise<unknown> | ((chunk: number) => Promise<unknown> | undefined);

/** An answer, whole or broken. A number of chunks counts the events sent: text, reasoning and pieces of calls. */
export interface AnswerStep {
  readonly reasoning?: string;
  readonly text?: string;
  readonly toolCalls?: readonly ScriptCall[];
  /** Default `tool_calls` where there are calls, else `stop`. */
  readonly finishReason?: FinishReason;
  /** Default: an estimate. `null`: none is sent. */
  readonly usage?: Usage | null;
  /** The model's name in the answer. Default: the one that the request asks for. */
  readonly model?: string;
  /** Characters of a chunk. Default: a word. */
  readonly chunkSize?: number;
  /** Milliseconds before each chunk. Default: the server's. */
  readonly delayMs?: number;
  /** Holds the answer until the test lets it go. */
  readonly gate?: StepGate;
  /** Destroys the socket after that many chunks; without streaming, instead of answering. */
  readonly closeAfter?: number;
  /** Falls silent after that many chunks, until the client leaves; without streaming, instead of answering. */
  readonly stallAfter?: number;
  /** Ends the response cleanly after that many chunks, without a finish reason; without streaming, with an empty body. */
  readonly endAfter?: number;
  /** After that many chunks, one event with this data as it is, then the rest; without streaming, the data is the body. */
  readonly malformed?: { readonly after: number; readonly data: string };
  /** After that many chunks, one event with this as its `error`, then the end; without streaming, a 500 with it. */
  readonly midStreamError?: { readonly after: number; readonly error: object };
}

/** A refusal: an HTTP status with a body. */
export interface RefusalStep {
  readonly status: number;
  /** An object is sent as JSON, a string unchanged. Default: an error in OpenAI's form that names the status. */
  readonly body?: object | string;
  /** Headers of the response. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Waited for before the status is sent. */
  readonly gate?: Promise<unknown>;
}

/** One answer of a script: a response of the model, or a refusal with an HTTP status. */
export type ScriptedAnswer = AnswerStep | RefusalStep;

/** What the server does with one request, or a function that looks at the request's body and says so. */
export type ScriptStep = ScriptedAnswer | ((body: Readonly<Record<string, unknown>>) => ScriptedAnswer);

export function isRefusal(step: ScriptedAnswer): step is RefusalStep {
  return 'status' in step;
}

/** One request that is being answered. */
export interface Exchange {
  readonly response: ServerResponse;
  /** Aborted when the client has left, the server closes, or the answer is out; `over` resolves then. */
  readonly signal: AbortSignal;
  /** Resolves with true where the connection ended before the answer was complete, and not by `breakOff`. */
  readonly over: Promise<boolean>;
  /** Destroys the socket. */
  breakOff(): void;
}

interface Delivery {
  readonly answer: ModelAnswer;
  readonly step: AnswerStep;
  readonly includeUsage: boolean;
  /** Milliseconds before each chunk. */
  readonly delayMs: number;
}

export function exchangeOf(response: ServerResponse): Exchange {
  const controller = new AbortController();
  let broken = false;
  const over = new Promise<boolean>((resolve) => {
    response.once('close', () => {
      controller.abort();
      resolve(!response.writableFinished && !broken);
    });
  });
  const breakOff = (): void => {
    broken = true;
    response.destroy();
  };
  return { response, signal: controller.signal, over, breakOff };
}

/** The body as text. Errors with a 413 beyond `maxBytes`; the rest is then read and thrown away. */
export function readBody(request: IncomingMessage, maxBytes: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= maxBytes) chunks.push(chunk);
      else reject(new ApiError(413, `The body is larger than ${maxBytes} bytes.`));
    });
    request.once('end', () => resolve(Buffer.concat(chunks).toString('utf8')));
    request.once('error', reject);
  });
}

export function sendJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

export async function sendRefusal({ response, signal, over }: Exchange, step: RefusalStep): Promise<void> {
  await Promise.race([step.gate, over]);
  if (signal.aborted) return;
  const body = step.body ?? new ApiError(step.status, `Scripted status ${step.status}.`).body();
  const isText = typeof body === 'string';
  const type = isText ? 'text/plain; charset=utf-8' : 'application/json';
  response.writeHead(step.status, { 'content-type': type, ...step.headers });
  response.end(isText ? body : JSON.stringify(body));
}

/** Answers in one piece, after as long as streaming it would take. */
export async function sendWhole(exchange: Exchange, { answer, step, delayMs }: Delivery): Promise<void> {
  const { response, signal, over } = exchange;
  await Promise.race([typeof step.gate === 'function' ? step.gate(0) : step.gate, over]);
  await pause(exchange, delayMs * (delayMs > 0 ? [...contentChunks(answer, step.chunkSize)].length : 0));
  if (signal.aborted) return;
  if (step.closeAfter !== undefined) exchange.breakOff();
  else if (step.stallAfter !== undefined) await over;
  else if (step.endAfter !== undefined) response.end();
  else if (step.malformed) response.writeHead(200, { 'content-type': 'application/json' }).end(step.malformed.data);
  else if (step.midStreamError) sendJson(response, 500, { error: step.midStreamError.error });
  else sendJson(response, 200, completionOf(answer));
}

/** Answers as server-sent events. Stops at once when the exchange is over. */
export async function sendStream(exchange: Exchange, { answer, step, includeUsage, delayMs }: Delivery): Promise<void> {
  const { response, signal, over } = exchange;
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  response.flushHeaders();
  if (typeof step.gate === 'object') await Promise.race([step.gate, over]);
  let sent = 0;
  for (const data of contentChunks(answer, step.chunkSize)) {
    if (typeof step.gate === 'function') await Promise.race([step.gate(sent), over]);
    await pause(exchange, delayMs);
    if (await breaksOff(exchange, step, (after) => after === sent)) return;
    await write(exchange, data);
    if (signal.aborted) return;
    sent += 1;
  }
  if (await breaksOff(exchange, step, (after) => after >= sent)) return;
  for (const data of closingChunks(answer, includeUsage)) await write(exchange, data);
  response.end('data: [DONE]\n\n');
}

/** Does what the step has in store for this place; true where the answer ends here. */
async function breaksOff(exchange: Exchange, step: AnswerStep, isHere: (after: number) => boolean): Promise<boolean> {
  const { response, signal, over } = exchange;
  const here = (after: number | undefined): boolean => after !== undefined && isHere(after);
  if (step.malformed && here(step.malformed.after)) await write(exchange, step.malformed.data);
  if (here(step.closeAfter)) {
    await flushed(response);
    exchange.breakOff();
  } else if (here(step.stallAfter)) {
    await over;
  } else if (step.midStreamError && here(step.midStreamError.after)) {
    await write(exchange, JSON.stringify({ error: step.midStreamError.error }));
    response.end();
  } else if (here(step.endAfter)) {
    response.end();
  } else {
    return signal.aborted;
  }
  return true;
}

async function write({ response, signal, over }: Exchange, data: string): Promise<void> {
  if (signal.aborted || response.write(`data: ${data}\n\n`)) return;
  await Promise.race([new Promise((resolve) => response.once('drain', resolve)), over]);
}

async function pause({ signal }: Exchange, ms: number): Promise<void> {
  if (ms <= 0 || signal.aborted) return;
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}

/** Resolves once all that was written has left this process: the callback of a comment comes after it. */
function flushed(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    response.write(':\n\n', () => resolve());
  });
}

/** An answer with all that the wire needs. The same request and reply give the same answer. */
interface ModelAnswer {
  readonly id: string;
  readonly model: string;
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly ChatCall[];
  readonly finishReason: FinishReason;
  /** Null: not told. */
  readonly usage: Usage | null;
}

/** The `created` of every answer, in seconds since 1970: fixed, so that equal requests have equal answers. */
const created = 1_767_225_600;

/** Four characters count as a token: near enough for an estimate. */
const charactersPerToken = 4;

const tokensOf = (text: string): number => Math.ceil(text.length / charactersPerToken);

/** Completes a reply: ids from a hash of the request, an estimate of the usage. */
export function answerOf(request: ChatRequest, reply: ModelReply, model: string): ModelAnswer {
  const { messages, tools, toolChoice, maxTokens } = request;
  const asked = JSON.stringify({ model, messages, tools, toolChoice, maxTokens });
  const hash = createHash('sha256').update(asked).digest('hex').slice(0, 24);
  const calls = (reply.toolCalls ?? []).map((call, index) => ({
    id: call.id ?? `call_${hash}_${index}`,
    name: call.name,
    arguments: call.arguments,
  }));
  const { text = '', reasoning = '' } = reply;
  const promptTokens = tokensOf(messages.map(textOfMessage).join('')) + tokensOf(toolText(request));
  const completionTokens = tokensOf(text + reasoning + calls.map((call) => call.name + call.arguments).join(''));
  return {
    id: `chatcmpl-${hash}`,
    model,
    text,
    reasoning,
    calls,
    finishReason: reply.finishReason ?? (calls.length > 0 ? 'tool_calls' : 'stop'),
    usage: { promptTokens, completionTokens, totalTokens: promptTokens + completionTokens },
  };
}

function textOfMessage(message: ChatRequest['messages'][number]): string {
  return message.text + message.calls.map((call) => call.name + call.arguments).join('');
}

function toolText(request: ChatRequest): string {
  return request.tools.length === 0 ? '' : JSON.stringify(request.tools);
}

/** What is left of a reply within `maxTokens`: text first, then calls; the last one may be cut in its arguments. */
export function cutReply(reply: ModelReply, maxTokens: number | undefined): ModelReply {
  if (maxTokens === undefined) return reply;
  let left = Math.floor(maxTokens) * charactersPerToken;
  let isCut = false;
  const take = (text: string): string => {
    const taken = text.slice(0, left);
    left -= taken.length;
    isCut ||= taken.length < text.length;
    return taken;
  };
  const reasoning = take(reply.reasoning ?? '');
  const text = take(reply.text ?? '');
  const toolCalls = (reply.toolCalls ?? []).flatMap((call) => {
    if (call.name.length > left) isCut = true;
    if (isCut) return [];
    left -= call.name.length;
    return [{ ...call, arguments: take(call.arguments) }];
  });
  return isCut ? { reasoning, text, toolCalls, finishReason: 'length' } : reply;
}

/** The body of an answer that is not streamed. */
function completionOf(answer: ModelAnswer): object {
  const message = {
    role: 'assistant',
    content: answer.text === '' ? null : answer.text,
    ...(answer.reasoning !== '' && { reasoning_content: answer.reasoning }),
    ...(answer.calls.length > 0 && {
      tool_calls: answer.calls.map(({ id, name, arguments: text }) => ({
        id,
        type: 'function',
        function: { name, arguments: text },
      })),
    }),
  };
  return {
    ...head(answer, 'chat.completion'),
    choices: [{ index: 0, message, logprobs: null, finish_reason: answer.finishReason }],
    ...(answer.usage && { usage: wireUsage(answer.usage) }),
  };
}

/** The content of a streamed answer, as the data of its events: reasoning, text, calls. */
function* contentChunks(answer: ModelAnswer, chunkSize?: number): Generator<string> {
  let first = true;
  for (const delta of deltasOf(answer, chunkSize)) {
    yield chunk(answer, first ? { role: 'assistant', ...delta } : delta, null);
    first = false;
  }
}

/** What follows the content: the finish reason, and the usage where the client asks for it. */
function* closingChunks(answer: ModelAnswer, includeUsage: boolean): Generator<string> {
  yield chunk(answer, {}, answer.finishReason);
  if (includeUsage && answer.usage !== null) {
    yield JSON.stringify({ ...head(answer, 'chat.completion.chunk'), choices: [], usage: wireUsage(answer.usage) });
  }
}

function* deltasOf(answer: ModelAnswer, chunkSize: number | undefined): Generator<object> {
  for (const piece of piecesOf(answer.reasoning, chunkSize)) yield { reasoning_content: piece };
  for (const piece of piecesOf(answer.text, chunkSize)) yield { content: piece };
  for (const [index, { id, name, arguments: text }] of answer.calls.entries()) {
    yield { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] };
    for (const piece of piecesOf(text, chunkSize)) yield { tool_calls: [{ index, function: { arguments: piece } }] };
  }
}

/** The text in pieces that join to it: words with the space before them, or so many characters each. */
function piecesOf(text: string, chunkSize: number | undefined): readonly string[] {
  if (chunkSize === undefined) return text.match(/\s*\S+(?:\s+$)?|\s+$/g) ?? [];
  const characters = [...text];
  const count = Math.ceil(characters.length / chunkSize);
  return Array.from({ length: count }, (_, index) =>
    characters.slice(index * chunkSize, (index + 1) * chunkSize).join(''),
  );
}

function chunk(answer: ModelAnswer, delta: object, finishReason: FinishReason | null): string {
  const choices = [{ index: 0, delta, logprobs: null, finish_reason: finishReason }];
  return JSON.stringify({ ...head(answer, 'chat.completion.chunk'), choices });
}

function head(answer: ModelAnswer, object: string): object {
  return { id: answer.id, object, created, model: answer.model };
}

function wireUsage(usage: Usage): object {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.totalTokens,
    ...(usage.cachedTokens !== undefined && { prompt_tokens_details: { cached_tokens: usage.cachedTokens } }),
    ...(usage.reasoningTokens !== undefined && {
      completion_tokens_details: { reasoning_tokens: usage.reasoningTokens },
    }),
  };
}

import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type FinishReason, systemClock, type Usage } from '../../core/contracts/index.ts';
import { pause, unlessAborted } from '../../core/streams/index.ts';
import { assertKnownOptions, type OptionNames } from '../../options/option-rules.ts';
import { ApiError } from './chat-request.ts';
import type { ModelAnswer } from './model-answer.ts';
import type { AnswerForm } from './wire.ts';

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
  /** An object is sent as JSON, a string unchanged. Default: an error in the form of the wire that names the status. */
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

const answerNames: OptionNames<AnswerStep> = {
  reasoning: true,
  text: true,
  toolCalls: true,
  finishReason: true,
  usage: true,
  model: true,
  chunkSize: true,
  delayMs: true,
  gate: true,
  closeAfter: true,
  stallAfter: true,
  endAfter: true,
  malformed: true,
  midStreamError: true,
};
const refusalNames: OptionNames<RefusalStep> = { status: true, body: true, headers: true, gate: true };

/** Errors: `INVALID_CONFIG` for an unknown property of a step, from 1. */
export function checkScriptStep(step: ScriptedAnswer, number: number): void {
  assertKnownOptions<object>(`step ${number} of the script`, step, isRefusal(step) ? refusalNames : answerNames);
}

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
  readonly form: AnswerForm;
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

export async function sendRefusal({ response, signal }: Exchange, step: RefusalStep, form: AnswerForm): Promise<void> {
  await passed(signal, step.gate);
  if (signal.aborted) return;
  const body = step.body ?? form.refusal(new ApiError(step.status, `Scripted status ${step.status}.`));
  const isText = typeof body === 'string';
  const type = isText ? 'text/plain; charset=utf-8' : 'application/json';
  response.writeHead(step.status, { 'content-type': type, ...step.headers });
  response.end(isText ? body : JSON.stringify(body));
}

/** Answers in one piece, after as long as streaming it would take. */
export async function sendWhole(exchange: Exchange, { answer, step, form, delayMs }: Delivery): Promise<void> {
  const { response, signal, over } = exchange;
  await passed(signal, typeof step.gate === 'function' ? step.gate(0) : step.gate);
  await delayed(signal, delayMs * (delayMs > 0 ? [...form.content(answer, step.chunkSize)].length : 0));
  if (signal.aborted) return;
  if (step.closeAfter !== undefined) exchange.breakOff();
  else if (step.stallAfter !== undefined) await over;
  else if (step.endAfter !== undefined) response.end();
  else if (step.malformed) response.writeHead(200, { 'content-type': 'application/json' }).end(step.malformed.data);
  else if (step.midStreamError) sendJson(response, 500, form.failure(step.midStreamError.error));
  else sendJson(response, 200, form.whole(answer));
}

/** Answers as server-sent events. Stops at once when the exchange is over. */
export async function sendStream(exchange: Exchange, { answer, step, form, delayMs }: Delivery): Promise<void> {
  const { response, signal } = exchange;
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  response.flushHeaders();
  if (typeof step.gate === 'object') await passed(signal, step.gate);
  let sent = 0;
  for (const data of form.content(answer, step.chunkSize)) {
    if (typeof step.gate === 'function') await passed(signal, step.gate(sent));
    await delayed(signal, delayMs);
    if (await breaksOff(exchange, { step, form }, (after) => after === sent)) return;
    await write(exchange, eventOf(data, form));
    if (signal.aborted) return;
    sent += 1;
  }
  if (await breaksOff(exchange, { step, form }, (after) => after >= sent)) return;
  for (const data of form.closing(answer)) await write(exchange, eventOf(data, form));
  response.end(form.end);
}

/** Does what the step has in store for this place; true where the answer ends here. */
async function breaksOff(
  exchange: Exchange,
  { step, form }: Pick<Delivery, 'step' | 'form'>,
  isHere: (after: number) => boolean,
): Promise<boolean> {
  const { response, signal, over } = exchange;
  const here = (after: number | undefined): boolean => after !== undefined && isHere(after);
  if (step.malformed && here(step.malformed.after)) await write(exchange, `data: ${step.malformed.data}\n\n`);
  if (here(step.closeAfter)) {
    await flushed(response);
    exchange.breakOff();
  } else if (here(step.stallAfter)) {
    await over;
  } else if (step.midStreamError && here(step.midStreamError.after)) {
    await write(exchange, eventOf(form.failure(step.midStreamError.error), form));
    response.end();
  } else if (here(step.endAfter)) {
    response.end();
  } else {
    return signal.aborted;
  }
  return true;
}

function eventOf(data: object, { namesEvents }: AnswerForm): string {
  const name = namesEvents && 'type' in data ? `event: ${String(data.type)}\n` : '';
  return `${name}data: ${JSON.stringify(data)}\n\n`;
}

async function write({ response, signal }: Exchange, event: string): Promise<void> {
  if (signal.aborted || response.write(event)) return;
  await passed(signal, once(response, 'drain'));
}

async function delayed(signal: AbortSignal, ms: number): Promise<void> {
  if (ms > 0) await pause(ms, systemClock, signal);
}

/** Waits for a gate until the client leaves. */
async function passed(signal: AbortSignal, gate: unknown): Promise<void> {
  await unlessAborted(signal, Promise.resolve(gate)).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
}

/** Resolves once all that was written has left this process: the callback of a comment comes after it. */
function flushed(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    response.write(':\n\n', () => resolve());
  });
}

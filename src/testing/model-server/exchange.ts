import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError } from './chat-request.ts';
import { closingChunks, completionOf, contentChunks, type ModelAnswer } from './model-answer.ts';
import type { AnswerStep, RefusalStep } from './script-step.ts';

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

export interface Delivery {
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

import type { Observable } from 'rxjs';
import { type AgentEvent, AgentLoopError } from '../core/contracts/index.ts';
import { iterateEvents } from '../tasks/read-events.ts';

import { AgUiEncoder, type AgUiOptions, agUiNames } from './ag-ui-events.ts';
import { PlainEncoder, type PlainEvent } from './plain-events.ts';
import { refusalOf, refused } from './requests.ts';
import { assertStreamOptions, type StreamOptions, sentenceOf } from './stream-options.ts';
import { UIMessageEncoder, type UIMessageOptions, uiMessageNames } from './ui-message-chunks.ts';

/** The events of one turn: a `Turn`, what `observe` of an agent gives, or these with operators. */
export type EventSource = AsyncIterable<AgentEvent> | Observable<AgentEvent>;

/** The UI message stream of the AI SDK. Pulled: see `toUIMessageStreamResponse`. */
export function toUIMessageStream(source: EventSource, options: UIMessageOptions = {}): ReadableStream<Uint8Array> {
  assertStreamOptions('toUIMessageStream', options, uiMessageNames);
  return streamOf(source, { ...options, encoder: new UIMessageEncoder(options), frame: dataFrame, last: doneFrame });
}

/**
 * A response that streams a turn to `useChat` of the AI SDK. The events are pulled: while the client does not read, pieces of one text are merged, so memory is
 * bounded by the text and the records of the turn. A client that disconnects leaves the source: an attached turn without other readers is
 * cancelled, a detached one continues. A turn that this process loses ends the stream with an `error` chunk, after metadata with `retryable`.
 */
export function toUIMessageStreamResponse(source: EventSource, options: UIMessageOptions = {}): Response {
  return responseOf(toUIMessageStream(source, options), { 'x-vercel-ai-ui-message-stream': 'v1' });
}

/** The events of AG-UI. Pulled, and left, as `toUIMessageStreamResponse` says; ends with `RUN_FINISHED` or `RUN_ERROR` in any case. */
export function toAgUI(source: EventSource, options: AgUiOptions): ReadableStream<Uint8Array> {
  assertStreamOptions('toAgUI', options, agUiNames);
  return streamOf(source, { ...options, encoder: new AgUiEncoder(options), frame: dataFrame, last: '' });
}

/** `toAgUI` as a `Response` with its headers. */
export function toAgUIResponse(source: EventSource, options: AgUiOptions): Response {
  return responseOf(toAgUI(source, options));
}

/** Plain server-sent events, see `plainEvents`. Pulled, and left, as `toUIMessageStreamResponse` says. */
export function toSSE(source: EventSource, options: StreamOptions = {}): ReadableStream<Uint8Array> {
  assertStreamOptions('toSSE', options, {});
  return streamOf(source, { ...options, encoder: new PlainEncoder(options), frame: plainFrame, last: '' });
}

/** `toSSE` as a `Response` with its headers. */
export function toSSEResponse(source: EventSource, options: StreamOptions = {}): Response {
  return responseOf(toSSE(source, options));
}

/**
 * `toSSEResponse` for a request that may name no turn, or one of something else: the response comes with the first event of the turn, or after 2 s. What `open` throws,
 * and what the turn errors with before that, is the response: its status, for example 404 for a task that does not exist and 409 for a task that exists with other
 * messages, and JSON `{ error: { code, message } }` as the handlers send it. Rejects for an unknown option only. Left as `toUIMessageStreamResponse` says.
 */
export async function respondWithSSE(open: () => EventSource, options: StreamOptions = {}): Promise<Response> {
  assertStreamOptions('respondWithSSE', options, {});
  try {
    const encoder = new PlainEncoder(options);
    const body = streamOf(await begun(open()), { ...options, encoder, frame: plainFrame, last: '' });
    return responseOf(body);
  } catch (error) {
    return refused(refusalOf(error, options.errorText ?? sentenceOf));
  }
}

/** How long the first event of a turn is waited for, so that what is refused has a status of its own. */
const patienceMs = 2_000;

/** The same source, once it has its first event, or that takes long. Errors: with what it errors before that. */
export async function begun(source: EventSource): Promise<AsyncIterable<AgentEvent>> {
  const events = iteratorOf(source);
  let waiting: Promise<IteratorResult<AgentEvent>> | undefined = events.next();
  await within(waiting, patienceMs);
  const iterator: AsyncIterator<AgentEvent> = {
    next() {
      const first = waiting;
      waiting = undefined;
      return first ?? events.next();
    },
    async return() {
      return (await events.return?.()) ?? { done: true, value: undefined };
    },
  };
  return { [Symbol.asyncIterator]: () => iterator };
}

export function iteratorOf(source: EventSource): AsyncIterator<AgentEvent> {
  return Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : iterateEvents(source);
}

function dataFrame(data: unknown): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

const doneFrame = 'data: [DONE]\n\n';

function plainFrame({ event, id, data }: PlainEvent): string {
  const place = id === undefined ? '' : `id: ${id}\n`;
  return `${place}event: ${event}\n${dataFrame(data)}`;
}

/** No `connection` header: HTTP/2 has none. */
export function responseOf(body: ReadableStream<Uint8Array>, headers: Readonly<Record<string, string>> = {}): Response {
  const common = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache', 'x-accel-buffering': 'no' };
  return new Response(body, { headers: { ...common, ...headers } });
}

/** Writes the events of one turn in a protocol. */
export interface Encoder<T> {
  encode(event: AgentEvent): readonly T[];
  /** What ends a stream whose turn was lost. Nothing where the end was written. */
  lost(error: unknown): readonly T[];
}

export interface StreamSettings<T> {
  readonly encoder: Encoder<T>;
  readonly frame: (item: T) => string;
  /** What ends each stream. */
  readonly last: string;
  readonly heartbeatMs?: number | undefined;
}

/** A comment line, which readers of server-sent events skip. */
const heartbeat = ': \n\n';
const isSilent = Symbol('silent');

/** Asks for the next event when the reader asks for more: nothing piles up here. */
export function streamOf<T>(source: EventSource, settings: StreamSettings<T>): ReadableStream<Uint8Array> {
  const { encoder, frame, last, heartbeatMs = 15_000 } = settings;
  const bytes = new TextEncoder();
  const text = (items: readonly T[]) => items.map(frame).join('');
  const events = iteratorOf(source);
  let waiting: Promise<IteratorResult<AgentEvent>> | undefined;
  let isLeft = false;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const send = (written: string) => {
          if (written !== '' && !isLeft) controller.enqueue(bytes.encode(written));
          return written !== '';
        };
        const end = (error: unknown) => {
          send(text(encoder.lost(error)) + last);
          if (!isLeft) controller.close();
        };
        for (;;) {
          waiting ??= events.next();
          try {
            const next = await within(waiting, heartbeatMs);
            if (next === isSilent) return void send(heartbeat);
            waiting = undefined;
            if (isLeft) return;
            if (next.done) return end(new AgentLoopError('INTERNAL', 'The stream of events ended before the turn.'));
            if (send(text(encoder.encode(next.value)))) return;
          } catch (error) {
            if (!isLeft) end(error);
            return;
          }
        }
      },
      async cancel() {
        isLeft = true;
        await events.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}

/** The value of a promise, or that it takes longer. */
async function within<T>(promise: Promise<T>, ms: number): Promise<T | typeof isSilent> {
  if (ms === 0 || ms === Number.POSITIVE_INFINITY) return promise;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silent = new Promise<typeof isSilent>((resolve) => {
    timer = setTimeout(() => resolve(isSilent), ms);
  });
  try {
    return await Promise.race([promise, silent]);
  } finally {
    clearTimeout(timer);
  }
}

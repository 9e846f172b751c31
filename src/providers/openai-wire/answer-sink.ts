import type { ChatAnswer } from './chat-answer.ts';
import type { ModelServer } from './model-server.ts';
import { type ByteSink, type SseEvent, sseDecoder } from './sse-decoder.ts';
import { protocolError, vendorError, wireError } from './wire-errors.ts';

/** Reads a body into an answer. Throws a coded error at what does not belong there, at `end` also where something lacks. */
export interface AnswerSink extends ByteSink {
  /** Whether the body said that nothing more comes: `[DONE]`. */
  readonly ended: boolean;
}

export interface AnswerSinkOptions {
  readonly server: ModelServer;
  readonly answer: ChatAnswer;
  readonly contentType: string;
  /** What was asked for; counts where the content type says nothing. */
  readonly streaming: boolean;
}

/** A sink for what the server sends, which need not be what was asked for. */
export function answerSink({ server, answer, contentType, streaming }: AnswerSinkOptions): AnswerSink {
  const type = contentType.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  if (type === 'text/html') throw protocolError(server, 'answered with a page of HTML');
  if (type === 'text/event-stream') return streamSink(server, answer);
  if (/^application\/(.+\+)?json$/.test(type) || !streaming) return sniffedSink(server, answer);
  return streamSink(server, answer);
}

/** An event stream, where it begins as one, whatever its content type says; else one JSON text. */
function sniffedSink(server: ModelServer, answer: ChatAnswer): AnswerSink {
  const utf8 = new TextDecoder();
  let begin = '';
  let sink: AnswerSink | undefined;
  const pieces: Uint8Array[] = [];
  const decide = (): AnswerSink => {
    sink = streamFields.test(begin) ? streamSink(server, answer) : completionSink(server, answer);
    for (const piece of pieces.splice(0)) sink.write(piece);
    return sink;
  };
  return {
    get ended() {
      return sink?.ended === true;
    },
    write(piece) {
      if (sink) return sink.write(piece);
      pieces.push(piece);
      begin += utf8.decode(piece, { stream: true }).trimStart();
      if (begin.length >= longestField) decide();
    },
    end: () => (sink ?? decide()).end(),
  };
}

/** What a line of an event stream begins with; JSON begins with none of them. */
const streamFields = /^(?:data|event|id|retry)?:/;
const longestField = 'event:'.length;

function streamSink(server: ModelServer, answer: ChatAnswer): AnswerSink {
  let bytes = 0;
  let ended = false;
  const onEvent = ({ data, name, whole }: SseEvent): void => {
    if (ended || data === '') return;
    if (data.startsWith('[DONE]')) {
      ended = true;
      answer.end();
      return;
    }
    const value = parsed(data);
    if (value === undefined && !whole) return;
    if (name === 'error' && !(typeof value === 'object' && value !== null && 'error' in value)) {
      throw vendorError(server, value ?? data);
    }
    if (value === undefined) throw protocolError(server, `sent an event that is not JSON, ${server.quote(data)}`);
    answer.add(value);
  };
  const events = sseDecoder(onEvent);
  return {
    get ended() {
      return ended;
    },
    write(piece) {
      bytes += piece.byteLength;
      events.write(piece);
      if (ended && !answer.finished) throw unfinished(server, answer, bytes);
    },
    end() {
      events.end();
      if (!answer.finished) throw unfinished(server, answer, bytes);
    },
  };
}

/** A stream that ends too early is worth another try; one that never spoke this wire is not. */
function unfinished(server: ModelServer, answer: ChatAnswer, bytes: number): Error {
  if (bytes > 0 && !answer.hasChoices) return protocolError(server, 'sent a stream without any choice of an answer');
  return wireError(server, 'PROVIDER_STREAM_CLOSED', 'ended its stream without a finish reason: try again');
}

function completionSink(server: ModelServer, answer: ChatAnswer): AnswerSink {
  const pieces: Uint8Array[] = [];
  return {
    ended: false,
    write: (piece) => {
      pieces.push(piece);
    },
    end() {
      const text = Buffer.concat(pieces).toString('utf8');
      const value = parsed(text.startsWith('\uFEFF') ? text.slice(1) : text);
      if (value === undefined) {
        const what =
          text.trim() === '' ? 'answered with an empty body' : `answered with what is not JSON, ${server.quote(text)}`;
        throw protocolError(server, what);
      }
      answer.add(value);
      if (!answer.hasChoices) throw protocolError(server, 'answered without any choice of an answer');
    },
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

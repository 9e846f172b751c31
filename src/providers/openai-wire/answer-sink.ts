import type { ChatAnswer } from './chat-answer.ts';
import { jsonIn, type ModelServer, protocolError, vendorError, wireError } from './wire-errors.ts';

/** Reads a body into an answer. Throws a coded error at what does not belong there, at `end` also where something lacks. */
interface AnswerSink extends ByteSink {
  /** Whether the body said that nothing more comes: `[DONE]`. */
  readonly ended: boolean;
}

interface AnswerSinkOptions {
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
    const value = jsonIn(data);
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
      const value = jsonIn(text.startsWith('\uFEFF') ? text.slice(1) : text);
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

/** Takes the bytes of a body, piece by piece. */
interface ByteSink {
  write(bytes: Uint8Array): void;
  /** Nothing more comes. */
  end(): void;
}

export interface SseEvent {
  readonly data: string;
  /** The `event` field; '' where there is none. */
  readonly name: string;
  /** False for an event that the end of the body cut off before its blank line. */
  readonly whole: boolean;
}

/**
 * Decodes an event stream whatever the boundaries of its pieces: line ends LF, CRLF or CR, a byte order mark, comments and
 * multi-byte characters cut in two. `onEvent` is called synchronously, in order, once for each event that has data. Work is
 * linear in the number of bytes; holds one event. Source: WHATWG HTML, section 9.2.6, but for the last event, which that
 * section drops where the body ends before its blank line.
 */
export function sseDecoder(onEvent: (event: SseEvent) => void): ByteSink {
  const utf8 = new TextDecoder();
  let line = '';
  let afterCr = false;
  let data: string | undefined;
  let name = '';

  const dispatch = (whole: boolean): void => {
    const event = data === undefined ? undefined : { data, name, whole };
    data = undefined;
    name = '';
    if (event !== undefined) onEvent(event);
  };
  const takeLine = (text: string): void => {
    if (text === '') {
      dispatch(true);
    } else if (text.startsWith('data') && (text.length === 4 || text[4] === ':')) {
      const value = valueFrom(text, 5);
      data = data === undefined ? value : `${data}\n${value}`;
    } else if (text.startsWith('event:')) {
      name = valueFrom(text, 6);
    }
  };
  const unifyLineEnds = (text: string): string => {
    const rest = afterCr && text.startsWith('\n') ? text.slice(1) : text;
    afterCr = text.endsWith('\r');
    return rest.includes('\r') ? rest.replace(/\r\n?/g, '\n') : rest;
  };
  const takeText = (decoded: string): void => {
    if (decoded === '') return;
    const text = unifyLineEnds(decoded);
    let start = 0;
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
      const head = line;
      line = '';
      takeLine(head + text.slice(start, end));
      start = end + 1;
    }
    line += text.slice(start);
  };

  return {
    write: (bytes) => takeText(utf8.decode(bytes, { stream: true })),
    end() {
      takeText(utf8.decode());
      if (line !== '') takeLine(line);
      line = '';
      dispatch(false);
    },
  };
}

/** The value of a field: what follows the colon and at most one space. */
function valueFrom(line: string, start: number): string {
  return line.slice(line[start] === ' ' ? start + 1 : start);
}

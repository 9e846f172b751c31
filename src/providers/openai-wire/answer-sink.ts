import { maxMessageDepth, textNestsTooDeep } from '../../core/contracts/index.ts';
import { soundsFailed } from '../failure-words.ts';
import { failureIn } from '../read-failure.ts';
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
  if (/^(application\/(.+\+)?json|text\/plain)$/.test(type) || !streaming) return sniffedSink(server, answer);
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
const streamFields = /^(?:data|event|error|id|retry)?:/;
const longestField = 'event:'.length;

function streamSink(server: ModelServer, answer: ChatAnswer): AnswerSink {
  let bytes = 0;
  let ended = false;
  const onEvent = ({ data, name, whole }: SseEvent): void => {
    if (data === '') return;
    if (data.startsWith('[DONE]')) {
      ended = true;
      answer.end();
      return;
    }
    const value = jsonIn(data);
    if (value === undefined && !whole) return;
    // The answer looks for failures in its own events.
    const failure = ended || typeof value !== 'object' ? failureIn(value) : undefined;
    if (failure) throw vendorError(server, failure);
    if (name !== '' && failedName.test(name)) throw vendorError(server, value ?? data);
    if (ended) return;
    if (value === undefined || typeof value === 'string')
      throw unreadable(server, String(value ?? data), 'an event that is not JSON');
    answer.add(value);
  };
  const strays = strayLines(server);
  const events = sseDecoder(onEvent, strays.add);
  return {
    get ended() {
      return ended;
    },
    write(piece) {
      bytes += piece.byteLength;
      events.write(piece);
      if (ended && !answer.finished) throw strays.failure() ?? unfinished(server, answer, bytes);
    },
    end() {
      events.end();
      const failure = strays.failure();
      if (failure) throw failure;
      if (!answer.finished) throw unfinished(server, answer, bytes);
    },
  };
}

/** Names of events and of fields that bring a failure. */
const failedName = /^(.*[._-])?(error|exception|failed|failure)$/i;

/** Input that is not JSON, or nests too deep: a failure in words, a page of a gateway, or another protocol. */
function unreadable(server: ModelServer, text: string, what: string): Error {
  if (textNestsTooDeep(text, maxMessageDepth))
    return protocolError(server, `sent JSON that nests deeper than ${maxMessageDepth} levels`);
  return soundsFailed(text) ? vendorError(server, text) : protocolError(server, `sent ${what}, ${server.quote(text)}`);
}

/** What is kept of the lines that belong to no event. */
const longestStray = 65_536;

/**
 * The lines of a stream that the WHATWG's event stream leaves out: a field of another name, an error as bare JSON, a page of HTML. A field
 * that is named after a failure is one at once; the other lines are read together at the end.
 */
function strayLines(server: ModelServer): { add(line: string): void; failure(): Error | undefined } {
  let text = '';
  const failure = (): Error | undefined => {
    const trimmed = text.trim();
    if (trimmed === '') return undefined;
    const value = jsonIn(trimmed);
    if (value !== undefined) {
      const failed = failureIn(value);
      return failed && vendorError(server, failed);
    }
    const isPage = /^<(!doctype|html|head|body)/i.test(trimmed);
    return isPage || soundsFailed(trimmed) ? unreadable(server, trimmed, 'a page of HTML in its stream') : undefined;
  };
  return {
    failure,
    add(line) {
      const colon = line.indexOf(':');
      if (colon > 0 && failedName.test(line.slice(0, colon))) {
        const words = valueFrom(line, colon + 1);
        const value = jsonIn(words) ?? words;
        if (value !== null && value !== '') throw vendorError(server, value);
      }
      if (text.length >= longestStray) return;
      // A whole object, in one line or in many, of which the last begins with its brace.
      if (line.startsWith('{')) text = '';
      text += `${line}\n`;
      if (!/^[{}].*}\s*$|^}\s*$/.test(line)) return;
      const failed = failureIn(jsonIn(text));
      if (failed) throw vendorError(server, failed);
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
      if (text.trim() === '') throw protocolError(server, 'answered with an empty body');
      if (value === undefined || typeof value === 'string')
        throw unreadable(server, String(value ?? text), 'what is not JSON');
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

/** Comments, and the fields that nobody here reads. */
const otherFields = /^(?::|(?:event|id|retry)(?::|$))/;

export interface SseEvent {
  readonly data: string;
  /** The `event` field; '' where there is none. */
  readonly name: string;
  /** False for an event that the end of the body cut off before its blank line. */
  readonly whole: boolean;
}

/**
 * Decodes an event stream whatever the boundaries of its pieces: line ends LF, CRLF or CR, a byte order mark, comments and
 * multi-byte characters cut in two. `onStray` gets the lines that are no field and no comment. `onEvent` is called synchronously, in order, once for each event that has data. Work is
 * linear in the number of bytes; holds one event. Source: WHATWG HTML, section 9.2.6, but for the last event, which that
 * section drops where the body ends before its blank line.
 */
export function sseDecoder(onEvent: (event: SseEvent) => void, onStray: (line: string) => void = () => {}): ByteSink {
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
    } else if (!otherFields.test(text)) {
      onStray(text);
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

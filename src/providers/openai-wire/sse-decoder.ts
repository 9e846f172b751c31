/** Takes the bytes of a body, piece by piece. */
export interface ByteSink {
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

import { Writable } from 'node:stream';
import { type Environment, type OutputStream, openTerminal, type Terminal } from 'millrace/internals';

export interface FakeScreen {
  readonly terminal: Terminal;
  readonly outStream: OutputStream;
  readonly errorStream: OutputStream;
  stdout(): string;
  stderr(): string;
  /** Both in the order of the writes. */
  all(): string;
}

/** A terminal on streams in memory. */
export function fakeScreen(
  options: {
    readonly outTTY?: boolean;
    readonly errTTY?: boolean;
    readonly columns?: number;
    readonly rows?: number;
    readonly env?: Environment;
  } = {},
): FakeScreen {
  const all: string[] = [];
  const stream = (isTTY: boolean) => {
    const own: string[] = [];
    const writable = new Writable({
      decodeStrings: false,
      write(chunk, _encoding, callback) {
        own.push(String(chunk));
        all.push(String(chunk));
        callback();
      },
    });
    const { columns = 80, rows = 24 } = options;
    return { own, writable: Object.assign(writable, isTTY ? { isTTY, columns, rows } : {}) };
  };
  const out = stream(options.outTTY ?? false);
  const error = stream(options.errTTY ?? false);
  return {
    terminal: openTerminal(out.writable, error.writable, options.env ?? { TERM: 'xterm', NO_COLOR: '1' }),
    outStream: out.writable,
    errorStream: error.writable,
    stdout: () => out.own.join(''),
    stderr: () => error.own.join(''),
    all: () => all.join(''),
  };
}

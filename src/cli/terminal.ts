import type { Writable } from 'node:stream';
import { styleText } from 'node:util';
import { logText } from '../guarded-logger.ts';
import { columnsOf, wrapLines } from './columns.ts';
import { withoutSteering } from './format.ts';

/** Where a command writes, and how it looks there. */
export interface Terminal {
  readonly env: Environment;
  readonly stdout: Output;
  readonly stderr: Output;
  /** For what goes to stdout. */
  readonly style: Style;
  /** For what goes to stderr. */
  readonly errorStyle: Style;
  /** Whether lines on stderr may be redrawn in place. */
  readonly live: boolean;
  /** Whether text on stdout and progress on stderr meet on one screen. */
  readonly shared: boolean;
}

export function openTerminal(stdout: OutputStream, stderr: OutputStream, env: Environment): Terminal {
  const out = new Output(stdout);
  const error = new Output(stderr);
  const unicode = wantsUnicode(env);
  return {
    env,
    stdout: out,
    stderr: error,
    style: createStyle({ color: wantsColor(out.isTerminal, env), unicode }),
    errorStyle: createStyle({ color: wantsColor(error.isTerminal, env), unicode }),
    live: error.isTerminal && env['TERM'] !== 'dumb',
    shared: out.isTerminal && error.isTerminal,
  };
}

/** The same terminal, with all that would go to stderr on stdout: for a command that is a show from start to end. */
export function onStdout(terminal: Terminal): Terminal {
  const { stdout, style, env } = terminal;
  const live = stdout.isTerminal && env['TERM'] !== 'dumb';
  return { ...terminal, stderr: stdout, errorStyle: style, live, shared: true };
}

/** The part of `process.stdout` and `process.stderr` that is used. */
export type OutputStream = Writable & {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
};

/** One of the process's outputs: says when it is full, and survives that its reader leaves. */
export class Output {
  readonly isTerminal: boolean;
  readonly #stream: OutputStream;
  readonly #closed = new AbortController();

  constructor(stream: OutputStream) {
    this.#stream = stream;
    this.isTerminal = stream.isTTY === true;
    // `millrace … | head -1` breaks the pipe. Without a listener that would end the process with a stack trace.
    const close = () => this.#closed.abort('stdout was closed');
    stream.on('error', close);
    stream.on('close', close);
  }

  /** Aborted when stdout is closed; later writes do nothing. */
  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  /** Of the terminal, or 80. A terminal that does not know its size says 0. */
  get columns(): number {
    return this.#stream.columns || 80;
  }

  /** Of the terminal, or 24, in the same way. */
  get rows(): number {
    return this.#stream.rows || 24;
  }

  /**
   * Writes without what steers a terminal, all but colours; for a slow reader, returns a promise that resolves when there is room again or
   * stdout is closed.
   */
  write(text: string): void | Promise<void> {
    return this.writeRaw(withoutSteering(text));
  }

  /** The same for text that was cleaned, with moves of the cursor of our own, and for a file that has to be exact. */
  writeRaw(text: string): void | Promise<void> {
    if (text === '' || this.#closed.signal.aborted) return;
    if (this.#stream.write(text)) return;
    return this.#room();
  }

  /** Resolves when all output has left the process, or stdout is closed. */
  flush(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#closed.signal.aborted) return resolve();
      this.#closed.signal.addEventListener('abort', () => resolve(), { once: true });
      this.#stream.write('', () => resolve());
    });
  }

  #room(): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#stream.off('drain', done);
        this.#closed.signal.removeEventListener('abort', done);
        resolve();
      };
      this.#stream.on('drain', done);
      this.#closed.signal.addEventListener('abort', done, { once: true });
    });
  }
}

/** Environment variables, as `process.env` has them. */
export type Environment = Readonly<Record<string, string | undefined>>;

type Paint = (text: string) => string;

interface Glyphs {
  readonly done: string;
  readonly failed: string;
  readonly arrow: string;
  readonly prompt: string;
  readonly rule: string;
  readonly ellipsis: string;
  readonly dot: string;
  /** The frames of a spinner, in order. */
  readonly spinner: readonly string[];
}

/** How text looks on one output. Without colours each paint returns its text as it is. */
export interface Style {
  readonly bold: Paint;
  readonly dim: Paint;
  readonly red: Paint;
  readonly green: Paint;
  readonly yellow: Paint;
  readonly cyan: Paint;
  readonly color: boolean;
  readonly unicode: boolean;
  readonly glyphs: Glyphs;
}

const unicodeGlyphs: Glyphs = {
  done: '✓',
  failed: '✗',
  arrow: '→',
  prompt: '❯',
  rule: '─',
  ellipsis: '…',
  dot: '·',
  spinner: ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'],
};

const asciiGlyphs: Glyphs = {
  done: '+',
  failed: 'x',
  arrow: '->',
  prompt: '>',
  rule: '-',
  ellipsis: '...',
  dot: '-',
  spinner: ['-', '\\', '|', '/'],
};

/** Whether to colour: `FORCE_COLOR` decides, then `NO_COLOR` (https://no-color.org), then whether it is a terminal. */
export function wantsColor(isTerminal: boolean, env: Environment): boolean {
  const forced = env['FORCE_COLOR'];
  if (forced !== undefined) return forced !== '0' && forced !== 'false';
  if (env['NO_COLOR'] !== undefined && env['NO_COLOR'] !== '') return false;
  return isTerminal && env['TERM'] !== 'dumb';
}

/** Terminals that say that they draw little get ASCII; everything else today reads UTF-8. */
export function wantsUnicode(env: Environment): boolean {
  return env['TERM'] !== 'dumb' && env['TERM'] !== 'linux';
}

export function createStyle(options: { readonly color: boolean; readonly unicode: boolean }): Style {
  const paint = (format: 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan'): Paint =>
    options.color ? (text) => styleText(format, text, { validateStream: false }) : (text) => text;
  return {
    bold: paint('bold'),
    dim: paint('dim'),
    red: paint('red'),
    green: paint('green'),
    yellow: paint('yellow'),
    cyan: paint('cyan'),
    color: options.color,
    unicode: options.unicode,
    glyphs: options.unicode ? unicodeGlyphs : asciiGlyphs,
  };
}

/** Tells the user something by the way, on stderr. */
export function note(terminal: Terminal, text: string): void {
  say(terminal, text, terminal.errorStyle.dim);
}

/** Tells the user what went wrong, on stderr. */
export function complain(terminal: Terminal, text: string): void {
  say(terminal, text, terminal.errorStyle.red);
}

/** One line where it goes into a file, so that it can be searched. The text may hold what clients, models and tools said. */
function say({ stderr }: Terminal, text: string, paint: (line: string) => string): void {
  const whole = `millrace: ${logText(text)}`;
  const lines = stderr.isTerminal ? wrapLines(whole, stderr.columns - 1) : [whole];
  void stderr.write(lines.map((line) => `${paint(line)}\n`).join(''));
}

const widest = 78;

/** The line that opens a section: its title, and a rule to the right end. */
export function section(title: string, { stdout, style }: Terminal): string {
  const { rule } = style.glyphs;
  const room = Math.min(stdout.columns - 1, widest) - columnsOf(title) - 4;
  return `${style.dim(rule.repeat(2))} ${style.bold(title)} ${style.dim(rule.repeat(Math.max(0, room)))}`;
}

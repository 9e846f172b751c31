import { createInterface, type Interface } from 'node:readline';
import { type Readable, Writable } from 'node:stream';

/** What a user typed, or how they left the prompt. */
export type Entry =
  | { readonly kind: 'text'; readonly text: string }
  /** Ctrl-C at the prompt. */
  | { readonly kind: 'interrupted' }
  /** Ctrl-D, the end of the input, or the signal. */
  | { readonly kind: 'end' };

export interface AnswerOptions {
  readonly prompt: string;
  /** What is typed is not shown. */
  readonly secret?: boolean;
}

/** Where a conversation gets what the user says. One reader at a time. */
export interface LineSource {
  /** The next entry. */
  next(): Promise<Entry>;
  /** One line that answers a question. */
  answer(options: AnswerOptions): Promise<Entry>;
  close(): void;
}

type Input = Readable & { readonly isTTY?: boolean; setRawMode?(raw: boolean): unknown };

export interface LineOptions {
  readonly input: Input;
  readonly output: Writable;
  readonly prompt: string;
  /** Asked for before each line; the lines end when it is aborted. */
  readonly signal: () => AbortSignal;
}

interface Asked {
  readonly lines: readonly string[];
  /** What was typed after the last line feed. */
  readonly rest: string;
  readonly history: string[];
  /** How the prompt was left without a line; absent where there are lines. */
  readonly left?: 'interrupted' | 'end';
}

const interrupt = '\u0003';

/**
 * What a user types at a prompt, with editing and a history. Lines that arrive at once, as from a paste, are one entry, except where
 * one of them is a command: it starts with `/`. The terminal is in its ordinary mode between entries, so that Ctrl-C reaches the
 * process as a signal while a turn runs. An answer is what is typed after its question was shown, one line: what was typed before is
 * dropped, as it cannot be meant for a question that nobody had seen.
 */
export class TypedLines implements LineSource {
  readonly #options: LineOptions;
  #history: string[] = [];
  #rest = '';
  /** Entries that came with an earlier one. */
  #ahead: readonly string[] = [];
  #left: 'interrupted' | 'end' | undefined;

  constructor(options: LineOptions) {
    this.#options = options;
  }

  async next(): Promise<Entry> {
    if (this.#ahead.length === 0 && this.#left === undefined) {
      const { lines, rest, history, left } = await ask(this.#options, { rest: this.#rest, history: this.#history });
      this.#history = history;
      this.#rest = rest;
      this.#left = left;
      const hasCommand = lines.some((line) => line.startsWith('/'));
      this.#ahead = hasCommand || lines.length === 0 ? lines : [lines.join('\n')];
    }
    const [text, ...others] = this.#ahead;
    this.#ahead = others;
    return text === undefined ? { kind: this.#left ?? 'end' } : { kind: 'text', text };
  }

  async answer({ prompt, secret = false }: AnswerOptions): Promise<Entry> {
    this.#ahead = [];
    this.#rest = '';
    if (this.#left !== undefined) return { kind: this.#left };
    const { input, output, signal } = this.#options;
    if (await droppedAhead(input)) return { kind: 'interrupted' };
    const request = { rest: '', history: [], secret };
    const { lines, left } = await ask({ input, output, prompt, signal }, request);
    const [text] = lines;
    return text === undefined ? { kind: left ?? 'end' } : { kind: 'text', text };
  }

  close(): void {}
}

/** The lines of a pipe or a file, which end with it; also those that answer questions. */
export class PipedLines implements LineSource {
  readonly #reader: Interface;
  readonly #lines: AsyncIterator<string>;
  readonly #signal: () => AbortSignal;

  constructor({ input, signal }: Pick<LineOptions, 'input' | 'signal'>) {
    this.#reader = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY });
    this.#lines = this.#reader[Symbol.asyncIterator]();
    this.#signal = signal;
  }

  async next(): Promise<Entry> {
    const ended = this.#signal();
    const close = () => this.#reader.close();
    ended.addEventListener('abort', close, { once: true });
    try {
      if (ended.aborted) return { kind: 'end' };
      const { done, value } = await this.#lines.next();
      return done === true || ended.aborted ? { kind: 'end' } : { kind: 'text', text: value };
    } finally {
      ended.removeEventListener('abort', close);
    }
  }

  answer(): Promise<Entry> {
    return this.next();
  }

  close(): void {
    this.#reader.close();
  }
}

/** Reads away what was typed so far, also a line that is not finished; whether there was a Ctrl-C in it. */
async function droppedAhead(input: Input): Promise<boolean> {
  let interrupted = false;
  const drop = (chunk: unknown) => {
    if (String(chunk).includes(interrupt)) interrupted = true;
  };
  const isTerminal = input.isTTY === true && input.setRawMode !== undefined;
  if (isTerminal) input.setRawMode?.(true);
  input.on('data', drop);
  input.resume();
  // The event loop has polled the input at least once behind each of them.
  for (let round = 0; round < 2; round++) await new Promise((resolve) => setImmediate(resolve));
  input.pause();
  input.off('data', drop);
  if (isTerminal) input.setRawMode?.(false);
  return interrupted;
}

interface Asking {
  /** What stands at the prompt already. */
  readonly rest: string;
  readonly history: string[];
  readonly secret?: boolean;
}

function ask({ input, output, prompt, signal }: LineOptions, { secret = false, ...last }: Asking): Promise<Asked> {
  return new Promise((resolve) => {
    const shown = secret ? new Writable({ write: (_chunk, _encoding, done) => done() }) : output;
    const reader = createInterface({ input, output: shown, prompt, history: last.history, terminal: true });
    const close = () => reader.close();
    const ended = signal();
    const lines: string[] = [];
    let history = last.history;
    let left: Asked['left'] = 'end';
    const next = () => {
      left = undefined;
      reader.close();
    };
    reader.on('history', (kept) => {
      history = kept;
    });
    reader.on('SIGINT', () => {
      left = 'interrupted';
      reader.close();
    });
    reader.on('line', (line) => {
      if (lines.length === 0) setImmediate(next);
      lines.push(line);
    });
    reader.on('close', () => {
      ended.removeEventListener('abort', close);
      if (lines.length === 0 || secret) output.write('\n');
      resolve({ lines, rest: left === undefined ? reader.line : '', history, ...(left && { left }) });
    });
    ended.addEventListener('abort', close, { once: true });
    if (ended.aborted || input.readableEnded) return close();
    if (secret) output.write(prompt);
    reader.prompt();
    reader.write(last.rest);
  });
}

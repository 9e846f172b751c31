import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';

export interface LineOptions {
  readonly input: Readable & { readonly isTTY?: boolean };
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
  /** The user is done, or the lines were told to end. */
  readonly done: boolean;
}

/**
 * What a user types at a prompt, with editing and a history, until Ctrl-D, or Ctrl-C at the prompt. Lines that arrive at
 * once, as from a paste, are one entry, except where one of them is a command: it starts with `/`. The terminal is in its
 * ordinary mode between entries, so that Ctrl-C reaches the process as a signal while a turn runs.
 */
export async function* typedLines(options: LineOptions): AsyncGenerator<string> {
  let asked: Asked = { lines: [], rest: '', history: [], done: false };
  while (!asked.done) {
    asked = await ask(options, asked);
    if (asked.lines.some((line) => line.startsWith('/'))) yield* asked.lines;
    else if (asked.lines.length > 0) yield asked.lines.join('\n');
  }
}

/** The lines of a pipe or a file, which end with it. */
export async function* pipedLines({ input, signal }: Pick<LineOptions, 'input' | 'signal'>): AsyncGenerator<string> {
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY });
  const close = () => lines.close();
  const ended = signal();
  ended.addEventListener('abort', close, { once: true });
  try {
    for await (const line of lines) {
      if (ended.aborted) return;
      yield line;
    }
  } finally {
    ended.removeEventListener('abort', close);
    lines.close();
  }
}

function ask({ input, output, prompt, signal }: LineOptions, last: Asked): Promise<Asked> {
  return new Promise((resolve) => {
    const reader = createInterface({ input, output, prompt, history: last.history, terminal: true });
    const close = () => reader.close();
    const ended = signal();
    const lines: string[] = [];
    let history = last.history;
    let done = true;
    const next = () => {
      done = false;
      reader.close();
    };
    reader.on('history', (kept) => {
      history = kept;
    });
    reader.on('SIGINT', close);
    reader.on('line', (line) => {
      if (lines.length === 0) setImmediate(next);
      lines.push(line);
    });
    reader.on('close', () => {
      ended.removeEventListener('abort', close);
      if (lines.length === 0) output.write('\n');
      resolve({ lines, rest: done ? '' : reader.line, history, done });
    });
    ended.addEventListener('abort', close, { once: true });
    if (ended.aborted || input.readableEnded) return close();
    reader.prompt();
    reader.write(last.rest);
  });
}

import { EventEmitter } from 'node:events';
import { Readable } from 'node:stream';
import { type CommandHost, runProgram } from 'millrace/internals';
import { type FakeScreen, fakeScreen } from './screen.ts';

export interface InProcessOptions {
  /** Added to one that keeps journals in memory. */
  readonly env?: Readonly<Record<string, string>>;
  /** A stream counts as a terminal, and so do the outputs then. */
  readonly stdin?: string | Readable;
  readonly signals?: EventEmitter;
  /** Looked at while the command runs. Default: one of its own. */
  readonly screen?: FakeScreen;
}

export interface InProcessEnd {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The command line on streams in memory, with no settings but those given. */
export async function runInProcess(args: readonly string[], options: InProcessOptions = {}): Promise<InProcessEnd> {
  const { stdin = '', signals = new EventEmitter() } = options;
  const env = { MILLRACE_STORE: 'memory', ...options.env };
  const isTTY = typeof stdin !== 'string';
  const screen = options.screen ?? fakeScreen({ env, outTTY: isTTY, errTTY: isTTY });
  const host: CommandHost = {
    terminal: screen.terminal,
    stdin: typeof stdin === 'string' ? Readable.from([stdin]) : Object.assign(stdin, { isTTY }),
    stdout: screen.outStream,
    stderr: screen.errorStream,
    signals,
    exitAtOnce: (code) => {
      throw new Error(`exit at once with ${code}`);
    },
    exitCode: 0,
  };
  const exitCode = await runProgram(args, host);
  return { exitCode, stdout: screen.stdout(), stderr: screen.stderr() };
}

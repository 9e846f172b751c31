import { EventEmitter } from 'node:events';
import { Readable } from 'node:stream';
import type { CommandHost } from '../../src/cli/command-host.ts';
import { runProgram } from '../../src/cli/program.ts';
import { type FakeScreen, fakeScreen } from './screen.ts';

export interface InProcessOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
  readonly signals?: EventEmitter;
}

export interface InProcessEnd {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The command line on streams in memory, with no settings but those given. */
export async function runInProcess(args: readonly string[], options: InProcessOptions = {}): Promise<InProcessEnd> {
  const { env = {}, stdin = '', signals = new EventEmitter() } = options;
  const screen: FakeScreen = fakeScreen({ env });
  const host: CommandHost = {
    terminal: screen.terminal,
    stdin: Readable.from([stdin]),
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

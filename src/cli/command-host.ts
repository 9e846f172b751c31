import type { Readable } from 'node:stream';
import type { SignalSource } from './interruption.ts';
import type { OutputStream } from './output.ts';
import type { Terminal } from './terminal.ts';

/** The process, as the commands see it. */
export interface CommandHost {
  readonly terminal: Terminal;
  readonly stdin: Readable & { readonly isTTY?: boolean };
  /** The bare streams below the terminal, for editing a line on. */
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly signals: SignalSource;
  /** Ends the process, losing whatever was not written. */
  readonly exitAtOnce: (exitCode: number) => void;
  /** What the process answers when the command is over. Default 0. */
  exitCode: number;
}

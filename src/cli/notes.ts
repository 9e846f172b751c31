import type { Terminal } from './terminal.ts';

/** Tells the user something by the way, on stderr. */
export function note(terminal: Terminal, text: string): void {
  void terminal.stderr.write(`${terminal.errorStyle.dim(`millrace: ${text}`)}\n`);
}

/** Tells the user what went wrong, on stderr. */
export function complain(terminal: Terminal, text: string): void {
  void terminal.stderr.write(`${terminal.errorStyle.red(`millrace: ${text}`)}\n`);
}

import { logText } from '../core/contracts/index.ts';
import type { Terminal } from './terminal.ts';
import { wrapLines } from './wrap-lines.ts';

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

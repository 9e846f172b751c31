import { columnsOf } from './one-line.ts';
import type { Terminal } from './terminal.ts';

const widest = 78;

/** The line that opens a section: its title, and a rule to the right end. */
export function section(title: string, { stdout, style }: Terminal): string {
  const { rule } = style.glyphs;
  const room = Math.min(stdout.columns - 1, widest) - columnsOf(title) - 4;
  return `${style.dim(rule.repeat(2))} ${style.bold(title)} ${style.dim(rule.repeat(Math.max(0, room)))}`;
}

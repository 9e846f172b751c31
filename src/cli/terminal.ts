import { Output, type OutputStream } from './output.ts';
import { createStyle, type Environment, type Style, wantsColor, wantsUnicode } from './style.ts';

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

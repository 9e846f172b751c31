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
  const paint = (open: number, close: number): Paint =>
    options.color ? (text) => `\u001b[${open}m${text}\u001b[${close}m` : (text) => text;
  return {
    bold: paint(1, 22),
    dim: paint(2, 22),
    red: paint(31, 39),
    green: paint(32, 39),
    yellow: paint(33, 39),
    cyan: paint(36, 39),
    color: options.color,
    unicode: options.unicode,
    glyphs: options.unicode ? unicodeGlyphs : asciiGlyphs,
  };
}

/** What a waterfall is drawn with. */
export interface Glyphs {
  /** Before a child that has siblings below it, and below such a child; then the same for the last child. */
  readonly branch: string;
  readonly pipe: string;
  readonly corner: string;
  readonly blank: string;
  readonly full: string;
  /** Parts of a cell, filled from the left, the smallest first. */
  readonly parts: readonly string[];
  readonly ellipsis: string;
  readonly failed: string;
  readonly canceled: string;
  readonly arrow: string;
}

export const unicodeGlyphs: Glyphs = {
  branch: '├ ',
  pipe: '│ ',
  corner: '└ ',
  blank: '  ',
  full: '█',
  parts: ['▏', '▎', '▍', '▌', '▋', '▊', '▉'],
  ellipsis: '…',
  failed: '✗',
  canceled: '⊘',
  arrow: '→',
};

export const asciiGlyphs: Glyphs = {
  branch: '|-',
  pipe: '| ',
  corner: '`-',
  blank: '  ',
  full: '#',
  parts: [],
  ellipsis: '~',
  failed: 'x',
  canceled: '-',
  arrow: '->',
};

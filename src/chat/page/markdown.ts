import type { Token, Tokens } from 'marked';
import { visibleText } from '../../ui/visible-text.ts';
import { tokensOf } from './markdown-pieces.ts';

/** Elements that Markdown comes to. There is none that loads something or runs something. */
export type MarkTag =
  | 'p'
  | 'h3'
  | 'h4'
  | 'h5'
  | 'h6'
  | 'strong'
  | 'em'
  | 'del'
  | 'code'
  | 'pre'
  | 'blockquote'
  | 'ul'
  | 'ol'
  | 'li'
  | 'a'
  | 'br'
  | 'hr'
  | 'table'
  | 'thead'
  | 'tbody'
  | 'tr'
  | 'th'
  | 'td'
  | 'input';

export interface MarkElement {
  readonly tag: MarkTag;
  readonly children: readonly MarkNode[];
  /** Of `a`: an address of the web or of a mail. */
  readonly href?: string;
  /** Of `pre`. */
  readonly language?: string;
  /** Of `ol`. */
  readonly start?: number;
  /** Of `th` and `td`. */
  readonly align?: 'center' | 'left' | 'right';
  /** Of `input`: a box that cannot be changed. */
  readonly checked?: boolean;
}

export type MarkNode = string | MarkElement;

/** Longer text is not parsed: it is one paragraph. Characters. */
const longest = 200_000;
/** Deeper nesting is text. */
const deepest = 20;

/**
 * Markdown (GitHub's) as elements of a closed set: HTML in it stays text, a link whose address is not of `http`, `https` or `mailto` is its text, and an image is a
 * link, so that no text can make the page load anything. Pure; never throws.
 */
export function markdownOf(text: string, now?: () => number): readonly MarkNode[] {
  if (text.length > longest) return [element('p', [visibleText(text)])];
  try {
    const tokens = tokensOf(visibleText(text), now);
    return outlined(tokens).flatMap(({ token, level }) =>
      level === undefined ? block(token, 0) : [element(level, inline((token as Tokens.Heading).tokens, 0))],
    );
  } catch {
    // Nesting that exceeds the stack.
    return [element('p', [visibleText(text)])];
  }
}

function element(tag: MarkTag, children: readonly MarkNode[], more: Partial<MarkElement> = {}): MarkElement {
  return { tag, children, ...more };
}

function blocks(tokens: readonly Token[], depth: number): readonly MarkNode[] {
  if (depth > deepest) return tokens.map(({ raw }) => raw);
  return tokens.flatMap((token) => block(token, depth));
}

/** The types of tokens are open, since extensions may add some: the members are checked where they are used. */
function block(token: Token, depth: number): readonly MarkNode[] {
  switch (token.type) {
    case 'space':
    case 'def':
      return [];
    case 'hr':
      return [element('hr', [])];
    case 'heading':
      // Below another element: no part of the outline.
      return [element('p', [element('strong', inline(token.tokens, depth))])];
    case 'paragraph':
      return [element('p', inline(token.tokens, depth))];
    case 'code':
      return [element('pre', [String(token['text'])], { language: languageOf(token['lang']) })];
    case 'blockquote':
      return [element('blockquote', blocks(token.tokens ?? [], depth + 1))];
    case 'list':
      return [list(token as Tokens.List, depth)];
    case 'table':
      return [table(token as Tokens.Table, depth)];
    case 'text':
      return token.tokens ? inline(token.tokens, depth) : [decoded(token.raw)];
    case 'checkbox':
      return [];
    case 'html':
      return [element('p', [token.raw.trimEnd()])];
    default:
      return [token.raw];
  }
}

/** Below the headings of the page. */
const levels = ['h3', 'h4', 'h5', 'h6'] as const;

/** Headings with levels that begin with the first and skip none, whichever the text has. */
function outlined(tokens: readonly Token[]): readonly { readonly token: Token; readonly level?: MarkTag }[] {
  const above: number[] = [];
  return tokens.map((token) => {
    if (token.type !== 'heading') return { token };
    const depth = Number(token['depth']);
    while ((above.at(-1) ?? 0) >= depth) above.pop();
    above.push(depth);
    return { token, level: levels[above.length - 1] ?? 'h6' };
  });
}

function languageOf(info: unknown): string {
  return typeof info === 'string' ? (/^[\w+#.-]{1,20}/.exec(info)?.[0] ?? '') : '';
}

function list({ ordered, start, items }: Tokens.List, depth: number): MarkElement {
  const children = items.map(({ task, checked, tokens }) => {
    const box = task ? [element('input', [], { checked: checked === true })] : [];
    return element('li', [...box, ...blocks(tokens, depth + 1)]);
  });
  return element(ordered ? 'ol' : 'ul', children, ordered && start !== '' && start !== 1 ? { start } : {});
}

function table({ header, rows, align }: Tokens.Table, depth: number): MarkElement {
  const row = (cells: readonly Tokens.TableCell[], tag: 'th' | 'td') =>
    element(
      'tr',
      cells.map(({ tokens }, at) => {
        const side = align[at];
        return element(tag, inline(tokens, depth), side ? { align: side } : {});
      }),
    );
  return element('table', [
    element('thead', [row(header, 'th')]),
    element(
      'tbody',
      rows.map((cells) => row(cells, 'td')),
    ),
  ]);
}

function inline(tokens: readonly Token[] = [], depth: number): readonly MarkNode[] {
  if (depth > deepest) return tokens.map(({ raw }) => raw);
  return tokens.flatMap((token) => inlineNode(token, depth + 1));
}

function inlineNode(token: Token, depth: number): readonly MarkNode[] {
  switch (token.type) {
    case 'strong':
    case 'em':
    case 'del':
      return [element(token.type, inline(token.tokens, depth))];
    case 'codespan':
      return [element('code', [String(token['text'])])];
    case 'br':
      return [element('br', [])];
    case 'link':
      return link(token['href'], inline(token.tokens, depth));
    case 'image':
      return link(token['href'], [`Image: ${decoded(String(token['text'] || token['href']))}`]);
    case 'escape':
      return [String(token['text'])];
    case 'text':
      return token.tokens ? inline(token.tokens, depth) : [decoded(token.raw)];
    case 'html':
      return /^<br ?\/?>$/i.test(token.raw) ? [element('br', [])] : [token.raw];
    case 'checkbox':
      return [];
    default:
      return [token.raw];
  }
}

function link(href: unknown, children: readonly MarkNode[]): readonly MarkNode[] {
  const address = safeAddress(decoded(String(href)));
  return address === undefined ? children : [element('a', children, { href: address })];
}

/** An address that a click may lead to; `undefined` for those of other schemes, and for relative ones. */
export function safeAddress(text: string): string | undefined {
  if (!/^(?:https?:\/\/|mailto:)/i.test(text) || !URL.canParse(text)) return undefined;
  const { protocol, href } = new URL(text);
  return ['http:', 'https:', 'mailto:'].includes(protocol) ? href : undefined;
}

const named: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' };

/** Character references as characters: they stay text. */
function decoded(text: string): string {
  return text.replace(
    /&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|(amp|lt|gt|quot|apos|nbsp));/g,
    (whole, decimal, hex, name) => {
      if (name !== undefined) return named[name] ?? whole;
      const code = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal);
      return code > 0 && code <= 0x10ffff ? visibleText(String.fromCodePoint(code)) : whole;
    },
  );
}

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The root of the package, without a separator at its end. */
export const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/[\\/]$/, '');

/** Every page that readers are sent to, relative to the root. */
export const pages: readonly string[] = [
  'README.md',
  'A2A_ALIGNMENT.md',
  'CHANGELOG.md',
  'examples/README.md',
  'bench/README.md',
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md'))
    .map((file) => join('docs', file)),
];

export function textOf(page: string): string {
  return readFileSync(join(root, page), 'utf8');
}

export interface CodeBlock {
  /** The word after the fence; '' where there is none. */
  readonly language: string;
  /** What is after the language, such as `fragment`; '' where there is nothing. */
  readonly mark: string;
  readonly code: string;
  /** The line of its first line of code, from 1. */
  readonly line: number;
}

export function codeBlocksIn(markdown: string): readonly CodeBlock[] {
  const blocks: CodeBlock[] = [];
  let open: (Omit<CodeBlock, 'code'> & { readonly lines: string[] }) | undefined;
  for (const [index, text] of markdown.split('\n').entries()) {
    const fence = /^```(\w*) *(.*)$/.exec(text);
    if (fence === null) open?.lines.push(text);
    else if (open === undefined) open = { language: fence[1] ?? '', mark: fence[2] ?? '', line: index + 2, lines: [] };
    else {
      const { lines, ...block } = open;
      blocks.push({ ...block, code: `${lines.join('\n')}\n` });
      open = undefined;
    }
  }
  return blocks;
}

/** The text of a page without its code blocks. */
export function proseOf(page: string): string {
  return prose(textOf(page));
}

function prose(markdown: string): string {
  return markdown.replace(/^```[\s\S]*?^```/gm, '');
}

export interface Link {
  /** Relative to the root; '' for the root itself. */
  readonly path: string;
  /** After `#`; '' where there is none. */
  readonly anchor: string;
}

/** The links of a page that lead to files of this package. */
export function linksIn(page: string): readonly Link[] {
  return [...proseOf(page).matchAll(/\]\(([^)\s]+)\)/g)]
    .map((match) => match[1] ?? '')
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => {
      const [path = '', anchor = ''] = target.split('#');
      return { path: path === '' ? page : normalize(join(dirname(page), path)), anchor };
    });
}

/** From the heading with this anchor to the next heading; '' where there is none. */
export function sectionOf(page: string, anchor: string): string {
  let section: string[] | undefined;
  let inCode = false;
  for (const line of textOf(page).split('\n')) {
    if (line.startsWith('```')) inCode = !inCode;
    const heading = inCode ? null : /^#{1,6} +(.+?) *$/.exec(line);
    if (heading && section) break;
    if (heading && slugOf(heading[1] ?? '') === anchor) section = [];
    section?.push(line);
  }
  return section?.join('\n') ?? '';
}

function slugOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-');
}

/** The anchors of a page's headings, as GitHub makes them. */
export function anchorsOf(page: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const match of prose(textOf(page)).matchAll(/^#{1,6} +(.+?) *$/gm)) {
    const slug = slugOf(match[1] ?? '');
    let anchor = slug;
    for (let copy = 1; anchors.has(anchor); copy++) anchor = `${slug}-${copy}`;
    anchors.add(anchor);
  }
  return anchors;
}

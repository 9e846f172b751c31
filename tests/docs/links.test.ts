import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { anchorsOf, linksIn, pages, root, textOf } from './markdown.ts';

describe('the pages', () => {
  it.each([
    'docs/agent-lifecycle.md',
    'docs/a2a.md',
    'docs/tool-integration.md',
    'docs/observability.md',
    'docs/concepts.md',
    'A2A_ALIGNMENT.md',
  ])('S1-110 have the guide %s', (page) => {
    expect(pages).toContain(page);
  });

  it.each(pages)('S1-110 %s links to files that are there, and to headings that they have', (page) => {
    const broken = linksIn(page).filter(({ path, anchor }) => {
      if (!existsSync(join(root, path))) return true;
      return anchor !== '' && !anchorsOf(path).has(anchor);
    });
    expect(broken).toEqual([]);
  });

  it('that are in the package lead to files that are there too', () => {
    const { files }: { readonly files: readonly string[] } = JSON.parse(textOf('package.json'));
    const shipped = ['README.md', 'LICENSE', 'package.json', ...files];
    const isShipped = (path: string) => shipped.some((entry) => path === entry || path.startsWith(`${entry}/`));
    const lost = pages.filter(isShipped).flatMap((page) => linksIn(page).filter(({ path }) => !isShipped(path)));
    expect(lost).toEqual([]);
  });

  it('S1-110 are all reached from the README', () => {
    const reached = new Set<string>();
    const visit = (page: string): void => {
      if (reached.has(page)) return;
      reached.add(page);
      for (const { path } of linksIn(page)) if (pages.includes(path)) visit(path);
    };
    visit('README.md');
    expect(pages.filter((page) => !reached.has(page))).toEqual([]);
  });
});

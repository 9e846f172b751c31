import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { pages, proseOf, root } from './markdown.ts';

const folders = ['src', 'tests', 'examples', 'bench', 'scripts', 'docker'];

/** Every file of the repository that a page or a comment may name, relative to the root, with `/`. */
const files: readonly string[] = [
  ...readdirSync(root, { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => name),
  ...folders.flatMap((folder) => filesIn(folder)),
];

function filesIn(folder: string): readonly string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    if (entry.name === 'node_modules' || entry.name === 'dist') return [];
    const path = `${folder}/${entry.name}`;
    return entry.isDirectory() ? filesIn(path) : [path];
  });
}

/** All ends of paths at a separator: pages name files from `src/`, from a room, or by their name alone. */
const known: ReadonlySet<string> = new Set(
  files.flatMap((file) => {
    const parts = file.split('/');
    return parts.map((_, index) => parts.slice(index).join('/'));
  }),
);

const sourceFile = /(?:[\w-]+\/)*[\w-]+(?:\.[\w-]+)*\.(?:ts|lua)(?![\w*])/g;

function isThere(path: string): boolean {
  return known.has(path.replace(/^(?:\.{1,2}\/)+/, ''));
}

/** The source files and folders that a page names in code spans. */
function namedIn(page: string): readonly string[] {
  const spans = [...proseOf(page).matchAll(/`([^`\n]+)`/g)].map((match) => match[1] ?? '');
  const named = spans.flatMap((span) => [...span.matchAll(sourceFile)].map(([path]) => path));
  const ours = spans.filter((span) => /^(?:src|tests|examples|bench|scripts|docs|docker)\/[\w./-]+$/.test(span));
  return [...named, ...ours.filter((span) => !named.includes(span))];
}

const named = [...pages, 'CONTRIBUTING.md', 'SECURITY.md', ...files.filter((file) => file.endsWith('.md'))]
  .filter((page, index, all) => all.indexOf(page) === index && page !== 'CHANGELOG.md')
  .map((page) => ({ page, paths: namedIn(page) }))
  .filter(({ paths }) => paths.length > 0);

describe('source paths', () => {
  it('of the architecture page are found by this test', () => {
    const { paths } = named.find(({ page }) => page === join('docs', 'architecture.md')) ?? { paths: [] };
    expect(paths.length).toBeGreaterThan(50);
  });

  it.each(named)('that $page names exist', ({ paths }) => {
    expect(paths.filter((path) => !isThere(path) && !existsSync(join(root, path)))).toEqual([]);
  });

  it('that comments name exist', () => {
    const dead = files
      .filter((file) => /^(?:src|tests|bench|scripts)\/.*\.(?:ts|mjs|lua)$/.test(file))
      .flatMap((file) =>
        commentsOf(readFileSync(join(root, file.split('/').join(sep)), 'utf8'))
          .flatMap((comment) => [...comment.matchAll(/`([^`]+)`/g)].map((match) => match[1] ?? ''))
          .flatMap((span) => [...span.matchAll(sourceFile)].map(([path]) => path))
          .filter((path) => !isThere(path))
          .map((path) => `${file}: ${path}`),
      );
    expect(dead).toEqual([]);
  });
});

/** Lines of comments, also within block comments. */
function commentsOf(source: string): readonly string[] {
  return source.split('\n').filter((line) => /^\s*(?:\/\/|\/?\*|--)/.test(line));
}

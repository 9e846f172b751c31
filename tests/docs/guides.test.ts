import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { codeBlocksIn, linksIn, pages, root, sectionOf, textOf } from './markdown.ts';

/** Pages that are no guides: the index, figures, and what maintainers read. */
const others = ['docs/README.md', 'docs/architecture.md', 'docs/performance.md', 'docs/versions.md'];
const guides = pages.filter((page) => /^docs\/[^/]+\.md$/.test(page) && !others.includes(page));
const examples = readdirSync(join(root, 'examples'))
  .filter((file) => file.endsWith('.ts'))
  .map((file) => `examples/${file}`);

/** The links of a page to one kind of files as a whole, each as often as it stands there. */
function linked(page: string, files: readonly string[]): readonly string[] {
  return linksIn(page)
    .filter(({ anchor }) => anchor === '')
    .map(({ path }) => path)
    .filter((path) => files.includes(path))
    .sort();
}

describe('the guides', () => {
  it('are few enough to find one’s way', () => {
    expect(guides.length).toBeLessThanOrEqual(21);
  });

  it('stand in their index, each once', () => {
    expect(linked('docs/README.md', guides)).toEqual([...guides].sort());
  });

  it('have a task each, which leads to a whole program: in its section, or in an example', () => {
    const tasks = textOf('docs/README.md').match(/^\| [^|*]+ \| \[[^|]+#[^|]+ \|.*$/gm) ?? [];
    expect(tasks.length).toBeGreaterThan(30);
    const withoutProgram = tasks.filter((task) => {
      const [, page = '', anchor = ''] = /\]\((?:\.\.\/)?([\w.-]+)#([^)]+)\)/.exec(task) ?? [];
      const blocks = codeBlocksIn(sectionOf(page === 'README.md' ? page : `docs/${page}`, anchor));
      return !/examples\/[\w-]+\.ts\)/.test(task) && !blocks.some(({ mark }) => mark === '');
    });
    expect(withoutProgram).toEqual([]);
    const pagesOfTasks = new Set(tasks.map((task) => /\]\(([\w-]+\.md)#/.exec(task)?.[1]));
    const ofNoTask = ['concepts', 'deployment', 'errors', 'scaling', 'security'].map((name) => `docs/${name}.md`);
    expect(guides.filter((page) => !pagesOfTasks.has(page.replace('docs/', '')))).toEqual(ofNoTask);
  });

  it.each(guides)('%s names an example', (guide) => {
    expect(linked(guide, examples)).not.toEqual([]);
  });
});

describe('the examples', () => {
  it('stand in their index, each once', () => {
    expect(linked('examples/README.md', examples)).toEqual([...examples].sort());
  });

  it('are each named by the README or a guide', () => {
    const named = new Set(['README.md', ...guides].flatMap((page) => linked(page, examples)));
    expect(examples.filter((file) => !named.has(file))).toEqual([]);
  });
});

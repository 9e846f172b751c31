import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { codeBlocksIn, root, textOf } from '../docs/markdown.ts';

const folder = join(root, 'examples/quick-starts');
const names = readdirSync(folder);
const sources = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((path) => /\.tsx?$/.test(path) && !path.includes('node_modules'))
  .map((path) => readFileSync(join(folder, path), 'utf8'));

/** Without indentation, which a part of a function has. */
const linesOf = (code: string) =>
  code
    .split('\n')
    .map((line) => line.trim())
    .join('\n');

describe('the quick starts', () => {
  it.each(['agent.ts', 'agent.test.ts'])('have one and the same %s', (file) => {
    const found = names.map((name) => readFileSync(join(folder, name, file), 'utf8'));
    expect(found.length).toBeGreaterThan(1);
    expect(new Set(found).size).toBe(1);
  });

  it.each(names)('%s has a page that says how to run it, and the scripts that create-millrace names', (name) => {
    expect(readFileSync(join(folder, name, 'README.md'), 'utf8')).toContain('npm run dev');
    const { scripts } = JSON.parse(readFileSync(join(folder, name, 'package.json'), 'utf8'));
    expect(Object.keys(scripts)).toEqual(expect.arrayContaining(['dev', 'start', 'test', 'chat', 'typecheck']));
  });

  it('stand in the guide as they are', () => {
    const page = textOf('docs/ui.md');
    const section = page.slice(page.indexOf('## Quick starts'), page.indexOf('## AG-UI'));
    const blocks = codeBlocksIn(section).filter(({ language }) => language === 'ts' || language === 'typescript');
    expect(blocks.length).toBeGreaterThanOrEqual(names.length);
    const all = sources.map(linesOf);
    const strange = blocks.filter(({ code }) => !all.some((source) => source.includes(linesOf(code))));
    expect(strange.map(({ code }) => code)).toEqual([]);
  });
});

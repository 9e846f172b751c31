import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';

const root = fileURLToPath(new URL('../..', import.meta.url));
const textOf = (file: string): string => readFileSync(join(root, file), 'utf8');

interface Entry {
  /** As programs import it. */
  readonly name: string;
  /** The file that it is built from. */
  readonly source: string;
}

/** What `exports` of `package.json` names: the list that the others follow. */
function entriesOf(exports: Readonly<Record<string, string | { readonly default: string }>>): readonly Entry[] {
  return Object.entries(exports).flatMap(([path, entry]) => {
    if (typeof entry === 'string') return [];
    const source = entry.default.replace(/^\.\/dist\//, 'src/').replace(/\.js$/, '.ts');
    return [{ name: `millrace${path.slice(1)}`, source }];
  });
}

const entries = entriesOf(JSON.parse(textOf('package.json')).exports);
const own = entries.filter(({ source }) => /^src\/stores\/\w+\/index\.ts$/.test(source));
const nameOf = ({ name }: Entry) => name.replace('millrace/', '');

describe('an entry of package.json', () => {
  it('is made of a file, and has its types beside it', () => {
    const { exports } = JSON.parse(textOf('package.json'));
    expect(entries.length).toBeGreaterThan(10);
    expect(entries.filter(({ source }) => !existsSync(join(root, source)))).toEqual([]);
    for (const entry of Object.values<{ readonly default?: string; readonly types?: string }>(exports))
      if (entry.default !== undefined) expect(entry.types).toBe(entry.default.replace(/\.js$/, '.d.ts'));
  });

  it('is a path of tsconfig.json, which tests and examples are compiled by, and no other path is there', () => {
    const { paths } = JSON.parse(textOf('tsconfig.json')).compilerOptions;
    const wanted = Object.fromEntries(entries.map(({ name, source }) => [name, [`./${source}`]]));
    expect(paths).toEqual({ ...wanted, 'millrace/internals': ['./tests/internals.ts'] });
  });

  it('is an entry of knip, so that what it exports counts as used', () => {
    const { entry }: { readonly entry: readonly string[] } = JSON.parse(textOf('knip.json'));
    // Of the command and of the page nothing is imported.
    const ofSource = entry.filter((file) => /^src\/(?!cli\/|inspect\/page\/)/.test(file));
    expect(ofSource.toSorted()).toEqual(entries.map(({ source }) => source).toSorted());
  });

  it('has a row in the table of imports in README.md', () => {
    expect(entries.filter(({ name }) => !textOf('README.md').includes(`| \`${name}\``))).toEqual([]);
  });
});

describe('a store that is an entry', () => {
  it('is each folder of stores that has an index.ts', () => {
    const folders = readdirSync(join(root, 'src/stores')).filter((name) =>
      existsSync(join(root, 'src/stores', name, 'index.ts')),
    );
    expect(folders.toSorted()).toEqual(own.map(nameOf).toSorted());
  });

  it('is one of ownStores, or has no store of turns', () => {
    const [, list = ''] = /ownStores = \{([^}]*)\}/.exec(textOf('src/stores/own-stores.ts')) ?? [];
    const names = [...list.matchAll(/(\w+):/g)].map(([, name]) => name);
    const ofTurns = own.filter(({ source }) => /StateStore\b/.test(textOf(source)));
    expect(names.toSorted()).toEqual(ofTurns.map(nameOf).toSorted());
  });

  it('is installed and constructed by the check of the tarball, if turns are kept in it', () => {
    const check = textOf('scripts/check-tarball.mjs');
    const ofTurns = own.filter(({ source }) => /StateStore\b/.test(textOf(source)));
    expect(ofTurns.filter(({ name }) => !check.includes(`['${name}',`))).toEqual([]);
  });
});

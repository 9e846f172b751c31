import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { vendors } from 'millrace/internals';

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

interface Manifest {
  readonly exports: Readonly<Record<string, string | { readonly default: string }>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional: boolean }>>;
}

const manifest: Manifest = JSON.parse(textOf('package.json'));
const entries = entriesOf(manifest.exports);
const optionalPeers = Object.keys(manifest.peerDependencies).filter(
  (name) => name !== 'rxjs' && name !== '@opentelemetry/api',
);
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

  const ofTurns = own.flatMap((entry) => {
    const [type] = /\w+StateStore\b/.exec(textOf(entry.source)) ?? [];
    return type === undefined ? [] : [{ ...entry, type }];
  });

  it('is installed and constructed by the check of the tarball, if turns are kept in it', () => {
    const check = textOf('scripts/check-tarball.mjs');
    const missing = ({ name, type }: (typeof ofTurns)[number]) =>
      !check.includes(`['${name}', '{ ${type} }']`) || !check.includes(`new ${type}(`);
    expect(ofTurns.filter(missing)).toEqual([]);
  });

  it('is tested by the contract of stores, and has a value of --store in docs/command-line.md', () => {
    const tests = readdirSync(join(root, 'tests'), { recursive: true, encoding: 'utf8' })
      .filter((file) => /^(stores|real)\b.*contract\.test\.ts$/.test(file))
      .map((file) => textOf(join('tests', file)));
    const isTested = (type: string) => tests.some((text) => text.includes('storeContract(') && text.includes(type));
    expect(ofTurns.filter(({ type }) => !isTested(type))).toEqual([]);
    const page = textOf('docs/command-line.md');
    expect(ofTurns.filter((entry) => !new RegExp(`^\\| \`${nameOf(entry)}\\b`, 'm').test(page))).toEqual([]);
  });
});

describe('a peer', () => {
  it('is optional, but for the two that every program needs', () => {
    expect(Object.keys(manifest.peerDependenciesMeta).toSorted()).toEqual(optionalPeers.toSorted());
  });
});

describe('the package of a vendor', () => {
  const packages = new Map<string, readonly number[]>(
    Object.values(vendors).flatMap((vendor) =>
      vendor.wire === 'sdk' ? [[vendor.package.name, vendor.package.majors]] : [],
    ),
  );

  it.each([...packages])(
    '%s is a peer in the majors that are accepted, and has a row in docs/versions.md',
    (name, majors) => {
      const range = manifest.peerDependencies[name] ?? '';
      expect([...range.matchAll(/\^(\d+)\./g)].map(([, major]) => Number(major))).toEqual(majors);
      expect(textOf('docs/versions.md')).toMatch(new RegExp(`^\\| .*\`${name}\``, 'm'));
    },
  );

  it.each(Object.keys(vendors))('%s is named in docs/models.md', (vendor) => {
    expect(textOf('docs/models.md')).toContain(`| \`${vendor}:…\``);
  });

  it('is known to knip, if no checkout installs it', () => {
    const { ignoreDependencies }: { readonly ignoreDependencies: readonly string[] } = JSON.parse(textOf('knip.json'));
    const isIgnored = (name: string) => ignoreDependencies.some((pattern) => new RegExp(`^(${pattern})$`).test(name));
    const names = [...packages.keys()];
    expect(names.filter(isIgnored)).toEqual(names.filter((name) => !(name in manifest.devDependencies)));
  });

  it('is installed for tests: in the checkout or in tests/vendors, and in tests/ai-sdk-7', () => {
    const { dependencies: besides } = JSON.parse(textOf('tests/vendors/package.json'));
    const { dependencies: ofSeven } = JSON.parse(textOf('tests/ai-sdk-7/package.json'));
    const isInstalled = (name: string) => (name in besides || name in manifest.devDependencies) && name in ofSeven;
    expect([...packages.keys()].filter((name) => !isInstalled(name))).toEqual([]);
  });
});

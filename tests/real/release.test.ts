import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';

/** Nobody listens there, and nobody has an account: nothing is ever published. */
const registry = 'http://127.0.0.1:1/';
const script = resolve('scripts/release.mjs');
const changelog = '# Changelog\n\n## Unreleased\n\n### Added\n\n- A thing.\n\n## 0.1.0 - 2026-01-01\n\n- First.\n';
let folder = '';

const git = (...args: readonly string[]) => execFileSync('git', args, { cwd: folder, encoding: 'utf8' }).trim();
const text = (file: string) => readFileSync(join(folder, file), 'utf8');
const versions = () => [
  JSON.parse(text('package.json')).version,
  JSON.parse(text('package-lock.json')).version,
  /'(.*)'/.exec(text('src/version.ts'))?.[1],
  JSON.parse(text('create-millrace/package.json')).version,
  JSON.parse(text('examples/quick-starts/node/package.json')).dependencies.millrace.replace('^', ''),
];

/** A repository with a package that npm does not publish, whose checks are these commands. */
function repository(scripts: Readonly<Record<string, string>>): void {
  const named = { name: 'millrace', version: '0.1.0' };
  const all = { test: 'node -e 0', check: 'node -e 0', 'check:tarball': 'node -e 0', ...scripts };
  writeFileSync(
    join(folder, 'package.json'),
    JSON.stringify({ ...named, private: true, publishConfig: { registry }, scripts: all }),
  );
  const lock = { ...named, lockfileVersion: 3, requires: true, packages: { '': named } };
  writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(lock));
  writeFileSync(join(folder, 'CHANGELOG.md'), changelog);
  mkdirSync(join(folder, 'src'));
  mkdirSync(join(folder, 'create-millrace'));
  const create = { name: 'create-millrace', version: '0.1.0', publishConfig: { registry } };
  writeFileSync(join(folder, 'create-millrace/package.json'), JSON.stringify(create, null, 2));
  mkdirSync(join(folder, 'examples/quick-starts/node'), { recursive: true });
  const quickStart = { private: true, dependencies: { millrace: '^0.1.0' } };
  writeFileSync(join(folder, 'examples/quick-starts/node/package.json'), JSON.stringify(quickStart, null, 2));
  writeFileSync(join(folder, 'src/version.ts'), "export const packageVersion = '0.1.0';\n");
  writeFileSync(join(folder, '.gitignore'), '*.tgz\n');
  git('init', '--quiet');
  git('config', 'user.name', 'ann');
  git('config', 'user.email', 'ann@example.org');
  git('add', '.');
  git('commit', '--quiet', '--message', 'first');
}

function release(...args: readonly string[]) {
  const env = {
    ...process.env,
    npm_config_ignore_scripts: 'true',
    npm_config_loglevel: 'notice',
    npm_config_registry: registry,
    npm_config_userconfig: join(folder, '.npmrc'),
  };
  const options = { cwd: folder, env, encoding: 'utf8' } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...args], options);
  return { status, printed: stdout + stderr };
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-release-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('a release', () => {
  it('is committed and tagged once its checks have passed with its version', () => {
    repository({ check: `node -e "process.exit(require('./package.json').version === '0.2.0' ? 0 : 1)"` });
    const { status, printed } = release('0.2.0', '--date', '2026-02-03');
    expect([status, printed]).toEqual([0, expect.stringContaining('Not published.')]);
    expect(versions()).toEqual(Array(5).fill('0.2.0'));
    expect(text('CHANGELOG.md')).toContain('## Unreleased\n\n## 0.2.0 - 2026-02-03\n\n### Added\n\n- A thing.\n');
    expect(git('log', '-1', '--format=%s %D')).toMatch(/^release: 0\.2\.0 .*tag: v0\.2\.0/);
    expect(git('status', '--porcelain')).toBe('');
    expect(existsSync(join(folder, 'millrace-0.2.0.tgz'))).toBe(true);
  });

  it.each(['test', 'check', 'check:tarball', 'prepack'])('changes nothing where %s fails', (failing) => {
    repository({ [failing]: 'node -e "process.exit(1)"' });
    const { status, printed } = release('0.2.0', '--publish');
    expect([status, printed]).toEqual([1, expect.stringContaining('nothing is changed')]);
    expect(printed).not.toContain('npm publish');
    expect(versions()).toEqual(Array(5).fill('0.1.0'));
    expect(text('CHANGELOG.md')).toBe(changelog);
    expect([git('status', '--porcelain'), git('tag'), git('log', '--format=%s')]).toEqual(['', '', 'first']);
    expect(existsSync(join(folder, 'millrace-0.2.0.tgz'))).toBe(false);
  });

  it('changes nothing where the commit is refused', () => {
    repository({});
    writeFileSync(join(folder, '.git/hooks/pre-commit'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
    expect(release('0.2.0').status).toBe(1);
    expect([git('status', '--porcelain'), git('tag'), ...versions()]).toEqual(['', '', ...Array(5).fill('0.1.0')]);
  });

  it('is published last: where that fails it is committed and tagged, and the command to repeat is printed', () => {
    repository({});
    const { status, printed } = release('0.2.0', '--publish');
    expect([status, printed]).toEqual([
      1,
      expect.stringContaining('Run again: npm publish millrace-0.2.0.tgz && npm publish ./create-millrace'),
    ]);
    expect(printed).toContain(`logged in to ${registry}`);
    expect([git('tag'), git('log', '-1', '--format=%s')]).toEqual(['v0.2.0', 'release: 0.2.0']);
  });

  it('does not begin with changes that are not committed, with a tag that exists, or without entries', () => {
    repository({});
    git('tag', 'v0.3.0');
    expect(release('0.3.0').printed).toContain('The tag v0.3.0 exists already');
    expect(release('0.1.0').printed).toContain('CHANGELOG.md has a section for 0.1.0 already');
    writeFileSync(join(folder, 'new.txt'), 'x');
    expect(release('0.2.0').printed).toContain('Commit or remove what is changed first:\n?? new.txt');
    expect(release('0.2.0', '--dry-run').status).toBe(0);
    writeFileSync(join(folder, 'CHANGELOG.md'), '# Changelog\n\n## Unreleased\n\n## 0.1.0 - 2026-01-01\n');
    expect(release('0.2.0').printed).toContain('no entries under "## Unreleased"');
    expect([git('tag'), ...versions()]).toEqual(['v0.3.0', ...Array(5).fill('0.1.0')]);
  });
});

import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { packageVersion } from 'millrace/internals';

const root = new URL('../../', import.meta.url);
const read = (path: string) => JSON.parse(readFileSync(new URL(path, root), 'utf8'));

it('the version of spans and metrics is that of the package', () => {
  expect(packageVersion).toBe(read('package.json').version);
});

it('the version is also that of create-millrace, and the one that its projects install', () => {
  expect(read('create-millrace/package.json').version).toBe(packageVersion);
  const projects = readdirSync(new URL('examples/quick-starts', root));
  const installed = projects.map((name) => read(`examples/quick-starts/${name}/package.json`).dependencies.millrace);
  expect(new Set(installed)).toEqual(new Set([`^${packageVersion}`]));
});

import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from '@jest/globals';

const cwd = fileURLToPath(new URL('../../../', import.meta.url));

function printedBy(program: string): string {
  return execFileSync(process.execPath, ['--input-type=module', '-e', program], {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  }).trim();
}

const make =
  "new S3ArtifactStore({ bucket: 'b', s3: { region: 'r', endpoint: 'http://127.0.0.1:1', maxAttempts: 1 } })";

it('loads the package of the S3 client at the first call, not with an import', () => {
  const program = `import module from 'node:module';
import 'millrace';
import { S3ArtifactStore } from 'millrace/s3';
const loaded = () => Object.keys(module._cache).some((file) => file.includes('aws-sdk'));
const store = ${make};
const before = loaded();
await store.list().catch(() => {});
console.log(before, loaded());`;
  expect(printedBy(program)).toBe('false true');
});

it('names the package to install where it is missing', () => {
  const hooks = `export async function resolve(name, context, next) {
  if (name === '@aws-sdk/client-s3') throw new Error('Cannot find package');
  return next(name, context);
}`;
  const program = `import { register } from 'node:module';
register('data:text/javascript,' + encodeURIComponent(${JSON.stringify(hooks)}));
const { S3ArtifactStore } = await import('millrace/s3');
const error = await ${make}.list().catch((thrown) => thrown);
console.log(error.code, error.message);`;
  expect(printedBy(program)).toMatch(/^MISSING_PACKAGE .*npm install @aws-sdk\/client-s3/);
});

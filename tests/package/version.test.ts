import { readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { packageVersion } from 'millrace/internals';

it('the version of spans and metrics is that of the package', () => {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  expect(packageVersion).toBe(version);
});

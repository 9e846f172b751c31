import { readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { patched } from '../crash/parent/child-bundle.ts';
import { mutations } from './mutations.ts';

it.each(Object.entries(mutations))('the planted bug %s fits the sources', (_, { patches }) => {
  expect(patches.length).toBeGreaterThan(0);
  for (const patch of patches) {
    const source = readFileSync(patch.file, 'utf8');
    expect(patched(patch, source)).not.toBe(source);
  }
});

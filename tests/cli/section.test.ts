import { expect, it } from '@jest/globals';
import { section } from 'millrace/internals';
import { fakeScreen } from './screen.ts';

it('a section opens with its title and a rule, at most as wide as the terminal', () => {
  const at = (columns: number) => section('trace', fakeScreen({ outTTY: true, columns }).terminal);
  expect(at(20)).toBe('── trace ──────────');
  expect(at(200)).toHaveLength(78);
  expect(at(5)).toBe('── trace ');
});

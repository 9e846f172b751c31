import { spawnSync } from 'node:child_process';
import { expect, it } from '@jest/globals';
import { root } from '../docs/markdown.ts';

it('V-30 the docs build in less than 90 s of processor time without a warning; each export has a page and a docstring, and no link is dead', () => {
  const built = spawnSync('bash', ['-c', `ulimit -t 90; exec "${process.execPath}" scripts/docs.mjs`], {
    cwd: root,
    env: { ...process.env, NO_COLOR: '1' },
    encoding: 'utf8',
  });
  expect(`${built.stdout}${built.stderr}`).not.toMatch(/\[(warning|error)\]/);
  expect(built).toMatchObject({ status: 0, signal: null });
  const checked = spawnSync(process.execPath, ['scripts/check-docs.mjs'], { cwd: root, encoding: 'utf8' });
  expect(checked.stderr).toBe('');
  expect(checked.stdout).toMatch(/^\d{3,} pages, \d{3,} exports of \d\d entries: 0 faults$/m);
}, 400_000);

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';

const program = `
import { compileJsonSchema } from ${JSON.stringify(join(process.cwd(), 'src/tools/json-schema-engine.ts'))};
const drafts = [undefined, 'https://json-schema.org/draft/2019-09/schema', 'http://json-schema.org/draft-07/schema#'];
const found = [];
for (const $schema of drafts) {
  const check = await compileJsonSchema({ ...($schema && { $schema }), type: 'object', required: ['n'] }, 'test');
  found.push([check({}), check({ n: 1 })]);
}
console.log(JSON.stringify(found));
`;

it.each([[], ['--splitting']])('JSON Schemas of each draft are checked in a bundle: %s', (...flags) => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-split-'));
  try {
    symlinkSync(join(process.cwd(), 'node_modules'), join(folder, 'node_modules'));
    writeFileSync(join(folder, 'main.ts'), program);
    const options = ['--bundle', '--platform=node', '--format=esm', '--out-extension:.js=.mjs', '--log-level=error'];
    // CommonJS packages in a bundle of modules need it, whatever the bundle is for.
    const banner =
      '--banner:js=import { createRequire } from "node:module"; const require = createRequire(import.meta.url);';
    const args = [join(folder, 'main.ts'), ...options, ...flags, banner, `--outdir=${join(folder, 'out')}`];
    execFileSync(join('node_modules', '.bin', 'esbuild'), args);
    const printed = execFileSync(process.execPath, [join(folder, 'out', 'main.mjs')], { encoding: 'utf8' });
    expect(JSON.parse(printed)).toEqual(Array(3).fill([false, true]));
  } finally {
    rmSync(folder, { recursive: true });
  }
});

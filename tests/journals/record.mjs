// node tests/journals/record.mjs CHECKOUT FOLDER [NAME …]: records the turns of turns.ts with the version in CHECKOUT, into files of FOLDER.
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const here = fileURLToPath(new URL('.', import.meta.url));
const checkout = resolve(process.argv[2] ?? '.');
const { exports } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8'));
const sourceOf = (built) => join(checkout, built.replace('dist/', 'src/').replace(/\.js$/, '.ts'));
const entries = Object.entries(exports).filter(([, entry]) => entry.default?.endsWith('.js'));
const outfile = join(checkout, 'node_modules', '.cache', 'record-journals.mjs');
await build({
  entryPoints: [join(here, 'record.ts')],
  outfile,
  alias: Object.fromEntries(entries.map(([name, entry]) => [name.replace('.', 'millrace'), sourceOf(entry.default)])),
  bundle: true,
  packages: 'external',
  platform: 'node',
  format: 'esm',
  target: 'node20',
  logLevel: 'warning',
});
process.argv.splice(2, 1);
await import(pathToFileURL(outfile).href);

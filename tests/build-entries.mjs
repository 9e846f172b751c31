// Before all tests: builds the entries of the package from src, and what tests use beside them, so that no test loads 700 files.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { pagePlugin } from '../scripts/page-plugin.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const outdir = join(root, '.cache', 'tests');

export default async function buildEntries() {
  const { paths } = JSON.parse(readFileSync(join(root, 'tsconfig.json'), 'utf8')).compilerOptions;
  const nameOf = (entry) => entry.replace('/', '-');
  const entries = await build({
    write: false,
    absWorkingDir: root,
    entryPoints: Object.fromEntries(Object.entries(paths).map(([entry, [file]]) => [nameOf(entry), file])),
    outdir,
    bundle: true,
    splitting: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    target: 'node20',
    sourcemap: true,
    logLevel: 'warning',
    plugins: [pagePlugin],
  });
  // RxJS is 200 files, which each test file would load one by one.
  const rxjs = join('node_modules', 'rxjs', 'dist', 'esm');
  const { outputFiles } = await build({
    write: false,
    absWorkingDir: root,
    entryPoints: { index: join(rxjs, 'index.js'), testing: join(rxjs, 'testing', 'index.js') },
    outdir: join(outdir, 'rxjs'),
    bundle: true,
    splitting: true,
    keepNames: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    logLevel: 'warning',
  });
  const made = [...entries.outputFiles, ...outputFiles];
  // What the Redis store reads from beside itself.
  const lua = join(root, 'src', 'stores', 'redis', 'lua');
  for (const name of readdirSync(lua))
    made.push({ path: join(outdir, 'lua', name), contents: readFileSync(join(lua, name)) });
  for (const { path, contents } of made) replace(path, contents);
  const names = new Set(made.map(({ path }) => relative(outdir, path)));
  for (const name of readdirSync(outdir, { recursive: true }))
    if (/\.\w+$/.test(name) && !names.has(name)) rmSync(join(outdir, name));
}

/** Leaves a file that is the same alone, and never shows a part of one: a test may run jest while others import these files. */
function replace(path, contents) {
  if (contentsOf(path)?.equals(contents)) return;
  mkdirSync(dirname(path), { recursive: true });
  const written = `${path}-${process.pid}`;
  writeFileSync(written, contents);
  renameSync(written, path);
}

function contentsOf(path) {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}

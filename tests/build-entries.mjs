// Before all tests: builds the entries of the package from src, and what tests use beside them, so that no test loads 700 files.
import { cpSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { pagePlugin } from '../scripts/page-plugin.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const outdir = join(root, '.cache', 'tests');

export default async function buildEntries() {
  const { paths } = JSON.parse(readFileSync(join(root, 'tsconfig.json'), 'utf8')).compilerOptions;
  const nameOf = (entry) => entry.replace('/', '-');
  const { metafile } = await build({
    metafile: true,
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
  const made = new Set(Object.keys(metafile.outputs).map((file) => basename(file)));
  for (const { name } of readdirSync(outdir, { withFileTypes: true }).filter((entry) => entry.isFile()))
    if (!made.has(name)) rmSync(join(outdir, name));
  // RxJS is 200 files, which each test file would load one by one.
  const rxjs = join('node_modules', 'rxjs', 'dist', 'esm');
  await build({
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
  // What the Redis store reads from beside itself.
  cpSync(join(root, 'src', 'stores', 'redis', 'lua'), join(outdir, 'lua'), { recursive: true });
}

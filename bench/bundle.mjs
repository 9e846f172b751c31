import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = new URL('..', import.meta.url);
const { exports } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8'));

/** What is measured is the built library, as a user gets it. */
const builtLibrary = {
  name: 'built-library',
  setup({ onResolve }) {
    onResolve({ filter: /^millrace(\/|$)/ }, ({ path }) => ({
      path: new URL(exports[path.replace('millrace', '.')].default, root).href,
      external: true,
    }));
  },
};

/** Bundles programs of this folder into another, and gives its path. Their packages are found from there. */
export async function bundle(files, into = new URL('node_modules/.cache/bench/', root)) {
  const outdir = fileURLToPath(into);
  await build({
    entryPoints: files.map((file) => fileURLToPath(new URL(file, import.meta.url))),
    outdir,
    entryNames: '[name]',
    outExtension: { '.js': '.mjs' },
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    logLevel: 'warning',
    plugins: [builtLibrary],
  });
  return outdir;
}

/** Bundles programs of this folder and runs the first with the arguments of the command line; ends as it ends. */
export async function bundleAndRun([main, ...children]) {
  const outdir = await bundle([main, ...children]);
  const program = main.replace(/^.*\//, '').replace(/\.ts$/, '.mjs');
  const { status } = spawnSync(process.execPath, ['--expose-gc', `${outdir}${program}`, ...process.argv.slice(2)], {
    cwd: fileURLToPath(root),
    stdio: 'inherit',
  });
  process.exitCode = status ?? 1;
}

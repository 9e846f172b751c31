import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = new URL('..', import.meta.url);
const outdir = fileURLToPath(new URL('node_modules/.cache/bench/', root));

/** What is measured is the built library, as a user gets it. */
const builtLibrary = {
  name: 'built-library',
  setup({ onResolve }) {
    onResolve({ filter: /^millrace$/ }, () => ({ path: new URL('dist/index.js', root).href, external: true }));
  },
};

await build({
  entryPoints: ['main.ts', 'many-turns-child.ts'].map((file) => fileURLToPath(new URL(file, import.meta.url))),
  outdir,
  outExtension: { '.js': '.mjs' },
  bundle: true,
  packages: 'external',
  platform: 'node',
  format: 'esm',
  logLevel: 'warning',
  plugins: [builtLibrary],
});

const { status } = spawnSync(process.execPath, ['--expose-gc', `${outdir}main.mjs`, ...process.argv.slice(2)], {
  cwd: fileURLToPath(root),
  stdio: 'inherit',
});
process.exitCode = status ?? 1;

// Builds dist/ from src/: declarations with tsc, the code as one module for each entry with shared chunks beside them. A module for each file would take twice as long to import.
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');

for (const file of existsSync(dist) ? readdirSync(dist, { recursive: true }) : []) {
  const path = String(file);
  const source = /^(.*)\.d\.ts(\.map)?$/.exec(path)?.[1];
  const isStale = source === undefined ? /\.(js|map|lua)$/.test(path) : !existsSync(join(root, 'src', `${source}.ts`));
  if (isStale) rmSync(join(dist, path));
}
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
try {
  execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' });
} catch {
  process.exit(1);
}

const { exports: entries, bin } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const built = [
  ...Object.values(entries).flatMap((entry) => entry.default ?? []),
  bin.millrace,
  './dist/cli/demo/tools-module.js',
];
await build({
  entryPoints: built.map((file) => file.replace(/^(\.\/)?dist\//, 'src/').replace(/\.js$/, '.ts')),
  absWorkingDir: root,
  outdir: 'dist',
  outbase: 'src',
  chunkNames: 'chunks/[name]-[hash]',
  bundle: true,
  splitting: true,
  packages: 'external',
  platform: 'node',
  format: 'esm',
  target: 'node20',
  sourcemap: true,
  sourcesContent: false,
  logLevel: 'warning',
  plugins: [{ name: 'lua', setup: withLua }],
});
keepRequires();
chmodSync(join(dist, 'cli', 'main.js'), 0o755);

/** In place of src/stores/redis/read-lua.ts, which reads the files. */
function withLua({ onLoad }) {
  onLoad({ filter: /[\\/]read-lua\.ts$/ }, () => {
    const folder = join(root, 'src', 'stores', 'redis', 'lua');
    const names = readdirSync(folder).sort();
    const sources = names.map((name) => [name.replace(/\.lua$/, ''), readFileSync(join(folder, name), 'utf8')]);
    const contents = `const sources = ${JSON.stringify(Object.fromEntries(sources))};\nexport function readLua(file) {\n  return sources[file];\n}\n`;
    return { contents, loader: 'js' };
  });
}

/** esbuild hides the calls of `require` that are there for the user's bundler behind a function of its own. */
function keepRequires() {
  const chunks = join(dist, 'chunks');
  for (const file of readdirSync(chunks).filter((name) => name.endsWith('.js'))) {
    const text = readFileSync(join(chunks, file), 'utf8');
    const kept = text.replaceAll('__require("ioredis")', 'require("ioredis")');
    if (kept !== text) writeFileSync(join(chunks, file), kept);
  }
}

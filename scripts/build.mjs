// Builds dist/ from src/: declarations with tsc, the code as one module for each entry with shared chunks beside them. A module for each file would take twice as long to import.
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { pagePlugin } from './page-plugin.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');
const source = join(root, 'src');
const types = join(root, 'node_modules', '.cache', 'millrace-types');

/** Packages that the command brings in its own files, with their licences, so that it runs where nothing else is installed. */
const broughtAlong = ['commander', 'decimal.js', 'openai'];
/** Packages in the script of the chat page. */
const inPage = ['marked', 'preact'];

const { resolve: locate } = createRequire(import.meta.url);
try {
  execFileSync(process.execPath, [locate('typescript/bin/tsc'), '-p', 'tsconfig.build.json'], {
    cwd: root,
    stdio: 'inherit',
  });
} catch {
  process.exit(1);
}
rmSync(dist, { recursive: true, force: true });

const { exports, bin, peerDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const entries = Object.values(exports).filter((entry) => entry.default !== undefined);
const library = entries.map((entry) => sourceOf(entry.default));
await build({
  absWorkingDir: root,
  bundle: true,
  packages: 'external',
  // tsconfig.json has paths for these.
  external: ['millrace', 'millrace/*'],
  platform: 'node',
  format: 'esm',
  target: 'node20',
  logLevel: 'warning',
  logOverride: { 'ignored-bare-import': 'silent' },
  entryPoints: [...library, sourceOf(bin.millrace), join(source, 'cli', 'demo', 'tools-module.ts')],
  outdir: 'dist',
  outbase: 'src',
  chunkNames: 'chunks/[name]-[hash]',
  splitting: true,
  sourcemap: true,
  plugins: [
    pagePlugin,
    { name: 'lua', setup: withLua },
    { name: 'own-stores', setup: withOwnStores },
    { name: 'sdk', setup: withRequires },
    { name: 'brought-along', setup: withPackages },
    { name: 'engine', setup: withWholeEngine },
  ],
});
keepRequiresAndNames();
dropForeignSources();
copyDeclarations();
writeFileSync(join(dist, 'cli', 'LICENSES.txt'), broughtAlong.map(licence).join('\n'));
writeFileSync(join(dist, 'chat', 'LICENSES.txt'), inPage.map(licence).join('\n'));
writeFileSync(join(dist, 'inspect', 'LICENSES.txt'), licence('preact'));
chmodSync(join(dist, 'cli', 'main.js'), 0o755);

function sourceOf(file) {
  return join(source, file.replace(/^(\.\/)?dist\//, '').replace(/\.js$/, '.ts'));
}

/**
 * esbuild makes a chunk for each set of entries and dynamic imports that share files. Each of them but the command reaches the whole root
 * entry here, so that its files are one chunk and not sixty, and one more for those that the command shows its help with.
 */
function withWholeEngine({ onResolve, onLoad }) {
  const engine = join(source, 'index.ts');
  // What it shares with the others is in chunks of its own, so that browsers do not load the engine.
  const forBrowsers = ['ui', 'ui/openai', 'chat'].map((entry) => join(source, entry, 'index.ts'));
  onResolve({ filter: /^\./ }, ({ kind, path, resolveDir }) =>
    kind === 'dynamic-import' ? { path: join(resolveDir, path), namespace: 'dynamic' } : undefined,
  );
  onLoad({ filter: /.*/, namespace: 'dynamic' }, ({ path }) => ({
    contents: `import ${JSON.stringify(engine)};\nexport * from ${JSON.stringify(path)};\n`,
    resolveDir: source,
  }));
  onLoad({ filter: /\.ts$/ }, ({ path }) => {
    if (path === engine || forBrowsers.includes(path) || !library.includes(path)) return undefined;
    return { contents: `import ${JSON.stringify(engine)};\n${readFileSync(path, 'utf8')}`, loader: 'ts' };
  });
}

/** In place of src/stores/redis/read-lua.ts, which reads the files. */
function withLua({ onLoad }) {
  onLoad({ filter: /[\\/]read-lua\.ts$/ }, () => {
    const folder = join(source, 'stores', 'redis', 'lua');
    const names = readdirSync(folder).sort();
    const sources = names.map((name) => [name.replace(/\.lua$/, ''), readFileSync(join(folder, name), 'utf8')]);
    const contents = `const sources = ${JSON.stringify(Object.fromEntries(sources))};\nexport function readLua(file) {\n  return sources[file];\n}\n`;
    return { contents, loader: 'js' };
  });
}

/** In place of src/stores/own-stores.ts, which imports the stores: for each of its imports, one that loads the entry of that name when it is needed. */
function withOwnStores({ onLoad }) {
  onLoad({ filter: /[\\/]own-stores\.ts$/ }, ({ path }) => {
    const member = (name) =>
      `${name}() { try { return require("millrace/${name}"); } catch { return loadPackage("millrace/${name}"); } }`;
    const names = [...readFileSync(path, 'utf8').matchAll(/^import \* as (\w+) from/gm)].map(([, name]) => name);
    const contents = `import { loadPackage } from './load-package.ts';\nexport const ownStores = { ${names.map(member).join(', ')} };\n`;
    return { contents, loader: 'js', resolveDir: dirname(path) };
  });
}

/** Adds to src/observability/load-sdk.ts what bundlers put into a bundle. */
function withRequires({ onLoad }) {
  onLoad({ filter: /[\\/]load-sdk\.ts$/ }, ({ path }) => {
    const contents = readFileSync(path, 'utf8').replaceAll(
      /=>\s+loadPackage\(('[^']+')\)/g,
      '=> { try { return require($1); } catch { return loadPackage($1); } }',
    );
    return { contents, loader: 'ts' };
  });
}

function withPackages({ onResolve }) {
  const filter = new RegExp(`^(${broughtAlong.join('|').replaceAll('.', '\\.')})$`);
  onResolve({ filter }, ({ path, importer }) => {
    if (!importer.startsWith(join(source, 'cli'))) return undefined;
    return { path: fileURLToPath(import.meta.resolve(path)) };
  });
}

function licence(name) {
  let folder = dirname(locate(name));
  while (!readdirSync(folder).includes('package.json') || !/^licen[cs]e/i.test(licenceIn(folder)))
    folder = dirname(folder);
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  return `${name} ${version}\n\n${readFileSync(join(folder, licenceIn(folder)), 'utf8')}`;
}

function licenceIn(folder) {
  return readdirSync(folder).find((file) => /^licen[cs]e/i.test(file)) ?? '';
}

/**
 * esbuild hides calls of `require` behind a function of its own: those that are there for the user's bundler, and commander's for what Node
 * brings. A class that uses its own name it calls `_Turn`, which users see in logs; a space in place of the `_` keeps the columns of the
 * source map.
 */
function keepRequiresAndNames() {
  const shared = Object.keys(peerDependencies).join('|');
  const ofShared = new RegExp(`__require\\("((?:${shared}|millrace)(?:/[\\w/-]+)?)"\\)`, 'g');
  for (const file of readdirSync(dist, { recursive: true }).filter((name) => name.endsWith('.js'))) {
    const text = readFileSync(join(dist, file), 'utf8');
    const kept = text
      .replaceAll(ofShared, 'require("$1")')
      .replaceAll(/__require\("node:(\w+)"\)/g, 'globalThis.process.getBuiltinModule("node:$1")')
      .replaceAll(/^(var (\w+) = class )_\2 [\s\S]*?^\};$/gm, (declaration, _, name) =>
        declaration.replaceAll(new RegExp(`(?<![\\w$.#"'\`])_${name}\\b`, 'g'), ` ${name}`),
      );
    if (kept !== text) writeFileSync(join(dist, file), kept);
  }
}

/** The sources of packages that are brought along are three times their code. */
function dropForeignSources() {
  for (const file of readdirSync(dist, { recursive: true }).filter((name) => name.endsWith('.js.map'))) {
    const path = join(dist, file);
    const map = JSON.parse(readFileSync(path, 'utf8'));
    const isForeign = map.sources.map((source) => source.includes('/node_modules/'));
    if (isForeign.includes(false)) {
      if (!isForeign.includes(true)) continue;
      const sourcesContent = map.sourcesContent.map((content, index) => (isForeign[index] ? null : content));
      writeFileSync(path, JSON.stringify({ ...map, sourcesContent }));
    } else {
      const module = path.replace(/\.map$/, '');
      writeFileSync(module, readFileSync(module, 'utf8').replace(/\n\/\/# sourceMappingURL=.*\n?$/, '\n'));
      rmSync(path);
    }
  }
}

/**
 * Those that a program can reach from an entry. The index of a room of the core gets the exports that they import, and not all
 * that other rooms use. Where an optional package is not installed its types are `any`: a compiler that checks declarations would refuse them all.
 */
function copyDeclarations() {
  const { peerDependenciesMeta } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const optional = Object.keys(peerDependenciesMeta).filter((name) => peerDependenciesMeta[name].optional);
  const ofOptional = new RegExp(`^(?=.*(?:from |import\\()['"](?:${optional.join('|')})(?:/[^'"]*)?['"])`, 'gm');
  for (const [file, text] of reachableDeclarations()) {
    mkdirSync(dirname(join(dist, file)), { recursive: true });
    writeFileSync(join(dist, file), text.replace(ofOptional, '// @ts-ignore\n'));
  }
}

function reachableDeclarations() {
  const texts = new Map();
  /** The names that are imported from each door. */
  const wanted = new Map();
  const follow = (file, names) => {
    const isDoor = /^core\/[\w-]+\/index\.d\.ts$/.test(file);
    const known = wanted.get(file) ?? new Set();
    const more = names.filter((name) => !known.has(name));
    if (texts.has(file) && (!isDoor || more.length === 0)) return;
    wanted.set(file, known);
    for (const name of more) known.add(name);
    const whole = readFileSync(join(types, file), 'utf8');
    const text = isDoor ? onlyExports(whole, known) : whole;
    texts.set(file, text);
    for (const { path, names } of importsIn(text)) follow(join(dirname(file), `${path}.d.ts`), names);
  };
  for (const { types: entry } of entries) follow(entry.replace('./dist/', ''), []);
  return texts;
}

function onlyExports(text, names) {
  return text.replaceAll(/^export (?:type )?\{([^}]*)\} from ['"][^'"]+['"];$/gm, (line, list) => {
    const kept = list.split(',').filter((each) => names.has(exportedName(each)));
    return kept.length > 0 ? line.replace(list, ` ${kept.map((each) => each.trim()).join(', ')} `) : '';
  });
}

/** `type A as B` is exported as `B`, and imported as `A`. */
function exportedName(specifier) {
  return specifier.trim().split(/\s+/).at(-1);
}

function importsIn(text) {
  const listed = text.matchAll(/(?:import|export) (?:type )?\{([^}]*)\} from ['"](\.{1,2}\/[^'"]+)\.ts['"]/g);
  const inline = text.matchAll(/import\(['"](\.{1,2}\/[^'"]+)\.ts['"]\)\.(\w+)/g);
  const plain = text.matchAll(/import ['"](\.{1,2}\/[^'"]+)\.ts['"]/g);
  return [
    ...[...listed].map(([, list, path]) => ({ path, names: list.split(',').map(importedName) })),
    ...[...inline].map(([, path, name]) => ({ path, names: [name] })),
    ...[...plain].map(([, path]) => ({ path, names: [] })),
  ];
}

function importedName(specifier) {
  return specifier
    .trim()
    .replace(/^type /, '')
    .split(/\s+/)[0];
}

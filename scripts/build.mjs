// Builds dist/ from src/: removes what no source makes any more, compiles, puts the Lua scripts into a module, and makes the command executable.
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');

for (const file of existsSync(dist) ? readdirSync(dist, { recursive: true }) : []) {
  const source = /^(.*?)(\.d\.ts|\.js)(\.map)?$/.exec(String(file))?.[1];
  if (source !== undefined && !existsSync(join(root, 'src', `${source}.ts`))) rmSync(join(dist, String(file)));
}
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
try {
  execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' });
} catch {
  process.exit(1);
}
rmSync(join(dist, 'stores', 'redis', 'lua'), { recursive: true, force: true });
rmSync(join(dist, 'stores', 'redis', 'read-lua.js.map'), { force: true });
writeFileSync(join(dist, 'stores', 'redis', 'read-lua.js'), luaModule(join(root, 'src', 'stores', 'redis', 'lua')));
chmodSync(join(dist, 'cli', 'main.js'), 0o755);

/** In place of src/stores/redis/read-lua.ts, which reads the files: a bundler would leave them behind. */
function luaModule(folder) {
  const names = readdirSync(folder).sort();
  const sources = names.map((name) => [name.replace(/\.lua$/, ''), readFileSync(join(folder, name), 'utf8')]);
  return `const sources = ${JSON.stringify(Object.fromEntries(sources), null, 2)};\nexport function readLua(file) {\n  return sources[file];\n}\n`;
}

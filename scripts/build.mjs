// Builds dist/ from src/: removes what no source makes any more, compiles, adds the Lua scripts, and makes the command executable.
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, readdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');

for (const file of existsSync(dist) ? readdirSync(dist, { recursive: true }) : []) {
  const source = /^(.*?)(\.d\.ts|\.js)(\.map)?$/.exec(String(file))?.[1];
  if (source !== undefined && !existsSync(join(root, 'src', `${source}.ts`))) rmSync(join(dist, String(file)));
  if (String(file).endsWith('.lua') && !existsSync(join(root, 'src', String(file)))) rmSync(join(dist, String(file)));
}
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
try {
  execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' });
} catch {
  process.exit(1);
}
cpSync(join(root, 'src', 'stores', 'redis', 'lua'), join(dist, 'stores', 'redis', 'lua'), { recursive: true });
chmodSync(join(dist, 'cli', 'main.js'), 0o755);

// Bundles the soak and its workers, which are TypeScript like what they test, and runs it.
import { execFileSync } from 'node:child_process';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

process.chdir(fileURLToPath(new URL('../..', import.meta.url)));
const folder = join('node_modules', '.cache', 'millrace-soak');
const options = ['--bundle', '--platform=node', '--format=esm', '--packages=external', '--log-level=warning'];
const names = ['main', 'worker', 'fuzz', 'mixed', 'mixed-server'];
const entries = names.map((name) => `tests/soak/${name}.ts`);
const output = ['--entry-names=[name]', '--out-extension:.js=.mjs', `--outdir=${folder}`];
execFileSync(join('node_modules', '.bin', 'esbuild'), [...entries, ...options, ...output]);
// What the Redis store reads from beside itself.
cpSync('src/stores/redis/lua', join(folder, 'lua'), { recursive: true });
const main = ['fuzz', 'mixed'].find((name) => process.argv.includes(`--${name}`)) ?? 'main';
await import(pathToFileURL(join(folder, `${main}.mjs`)).href);

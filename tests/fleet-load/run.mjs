// Bundles the load, which is TypeScript like what it tests, and runs it.
import { execFileSync } from 'node:child_process';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

process.chdir(fileURLToPath(new URL('../..', import.meta.url)));
const folder = join('node_modules', '.cache', 'millrace-fleet-load');
const bundle = join(folder, 'main.mjs');
const options = ['--bundle', '--platform=node', '--format=esm', '--packages=external', '--log-level=warning'];
execFileSync(join('node_modules', '.bin', 'esbuild'), ['tests/fleet-load/main.ts', ...options, `--outfile=${bundle}`]);
// What the Redis store reads from beside itself.
cpSync('src/stores/redis/lua', join(folder, 'lua'), { recursive: true });
await import(pathToFileURL(bundle).href);

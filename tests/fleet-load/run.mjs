// Bundles the load, which is TypeScript like what it tests, and runs it.
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { bundle } from '../bundle.mjs';

process.chdir(fileURLToPath(new URL('../..', import.meta.url)));
const folder = join('node_modules', '.cache', 'millrace-fleet-load');
const outfile = join(folder, 'main.mjs');
await bundle({ entryPoints: ['tests/fleet-load/main.ts'], outfile });
// What the Redis store reads from beside itself.
cpSync('src/stores/redis/lua', join(folder, 'lua'), { recursive: true });
await import(pathToFileURL(outfile).href);

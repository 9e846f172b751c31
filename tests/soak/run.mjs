// Bundles the soak and its workers, which are TypeScript like what they test, and runs it.
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { bundle } from '../bundle.mjs';

process.chdir(fileURLToPath(new URL('../..', import.meta.url)));
const folder = join('node_modules', '.cache', 'millrace-soak');
const names = ['main', 'worker', 'fuzz', 'mixed', 'mixed-server'];
const entryPoints = names.map((name) => `tests/soak/${name}.ts`);
await bundle({ entryPoints, entryNames: '[name]', outExtension: { '.js': '.mjs' }, outdir: folder });
// What the Redis store reads from beside itself.
cpSync('src/stores/redis/lua', join(folder, 'lua'), { recursive: true });
const main = ['fuzz', 'mixed'].find((name) => process.argv.includes(`--${name}`)) ?? 'main';
await import(pathToFileURL(join(folder, `${main}.mjs`)).href);

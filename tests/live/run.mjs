// Bundles the scenarios, which are TypeScript like what they try, and plays them against vendors.
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { bundle } from '../bundle.mjs';

process.chdir(fileURLToPath(new URL('../..', import.meta.url)));
const outfile = join('node_modules', '.cache', 'millrace-live', 'main.mjs');
await bundle({ entryPoints: ['tests/live/main.ts'], outfile });
await import(pathToFileURL(outfile).href);

// Bundles programs of tests with the pages that they import: `bundle(options)` in a module, `node tests/bundle.mjs '{ … }'` where nothing can be awaited.
import { build } from 'esbuild';
import { pagePlugin } from '../scripts/page-plugin.mjs';

/** `options`: those of esbuild besides these. */
export async function bundle(options) {
  const common = { bundle: true, platform: 'node', format: 'esm', packages: 'external', logLevel: 'warning' };
  await build({ ...common, plugins: [pagePlugin], ...options });
}

const [, program, options] = process.argv;
if (program === import.meta.filename && options !== undefined) await bundle(JSON.parse(options));

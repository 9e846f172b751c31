import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const root = fileURLToPath(new URL('..', import.meta.url));

/** Packs the package as `npm pack` does into a folder, from what `npm run build` made. Gives the path of the tarball. */
export async function pack(folder: string): Promise<string> {
  if (!existsSync(join(root, 'dist/index.js')))
    throw new Error('There is no dist; run npm run build before this test.');
  const options = { cwd: root, maxBuffer: 16 * 2 ** 20 };
  const { stdout } = await run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], options);
  const [{ filename }]: readonly [{ readonly filename: string }] = JSON.parse(stdout);
  return join(folder, filename);
}

/**
 * A project in a folder whose `millrace` is the unpacked tarball; every other package is the one of this repository, so that nothing is downloaded.
 * `only`: the packages that are there, in place of all. Gives the folder of the package.
 */
export async function installPacked(folder: string, only?: readonly string[]): Promise<string> {
  const modules = join(folder, 'node_modules');
  const installed = join(modules, 'millrace');
  mkdirSync(installed, { recursive: true });
  for (const name of only ?? readdirSync(join(root, 'node_modules'))) {
    if (!name.startsWith('.') && name !== 'millrace') link(name, modules);
  }
  await run('tar', ['-xzf', await pack(folder), '-C', installed, '--strip-components=1']);
  return installed;
}

function link(name: string, modules: string): void {
  const path = join(modules, name);
  mkdirSync(dirname(path), { recursive: true });
  symlinkSync(join(root, 'node_modules', name), path);
}

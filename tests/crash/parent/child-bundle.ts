import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A change of one source file of the engine. */
export interface Patch {
  /** From the root of the repository. */
  readonly file: string;
  /** Stands in the file exactly once. */
  readonly from: string;
  readonly to: string;
}

/** The program of the children, made from the sources as they are or with patches, in a folder of its own. */
export class ChildBundle {
  readonly path: string;
  readonly #folder: string;

  /** `entry`: the program of other children than those of the crash harness. */
  constructor(patches: readonly Patch[] = [], entry = 'tests/crash/workload/child.ts') {
    this.#folder = mkdtempSync(join(tmpdir(), 'millrace-crash-'));
    this.path = join(this.#folder, 'child.mjs');
    const sources = patches.length === 0 ? '.' : this.#patchedSources(patches);
    symlinkSync(join(process.cwd(), 'node_modules'), join(this.#folder, 'node_modules'));
    cpSync(join(sources, 'src/stores/redis/lua'), join(this.#folder, 'lua'), { recursive: true });
    // The small packages are bundled: finding them at each start costs more than running them.
    const external = [
      'lmdb',
      'ioredis',
      'pg',
      'ajv',
      'express',
      'jose',
      '@a2a-js/sdk',
      '@grpc/grpc-js',
      '@bufbuild/protobuf',
    ];
    // For packages in the old format, which ask for modules of Node.js at run time.
    const js = 'import { createRequire as requireOf } from "node:module"; const require = requireOf(import.meta.url);';
    const options = {
      entryPoints: [join(sources, entry)],
      splitting: true,
      packages: 'bundle',
      external,
      banner: { js },
      outExtension: { '.js': '.mjs' },
      outdir: this.#folder,
    };
    execFileSync(process.execPath, ['tests/bundle.mjs', JSON.stringify(options)]);
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #patchedSources(patches: readonly Patch[]): string {
    for (const path of [
      'src',
      'tests/crash',
      'tests/fleet-load',
      'tests/fleet',
      'tests/internals.ts',
      'tsconfig.json',
      'package.json',
    ])
      cpSync(path, join(this.#folder, path), { recursive: true });
    for (const patch of patches) {
      const path = join(this.#folder, patch.file);
      writeFileSync(path, patched(patch, readFileSync(path, 'utf8')));
    }
    return this.#folder;
  }
}

/** Errors where the text to be replaced does not stand there exactly once: the source has changed since the patch was made. */
export function patched({ file, from, to }: Patch, text: string): string {
  const pieces = text.split(from);
  if (pieces.length === 2) return pieces.join(to);
  throw new Error(`${file} has ${pieces.length - 1} times what a patch replaces once; make the patch anew:\n${from}`);
}

import { readFileSync } from 'node:fs';

/** The source of `lua/<file>.lua`. `scripts/build.mjs` replaces this module by one that contains the sources, since a bundle has no such files. */
export function readLua(file: string): string {
  return readFileSync(new URL(`./lua/${file}.lua`, import.meta.url), 'utf8');
}

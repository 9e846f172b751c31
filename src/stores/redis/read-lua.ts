import { readFileSync } from 'node:fs';

/** The source of `lua/<file>.lua`. `scripts/build.mjs` replaces this module by one that holds the sources: a bundle has no such files beside it. */
export function readLua(file: string): string {
  return readFileSync(new URL(`./lua/${file}.lua`, import.meta.url), 'utf8');
}

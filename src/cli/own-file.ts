import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** A file of this package, by its path in it: where a module is in the build says nothing about that. */
export function ownFile(path: string): string {
  return join(dirname(createRequire(import.meta.url).resolve('millrace/package.json')), path);
}

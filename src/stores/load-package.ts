import * as nodeModule from 'node:module';
import { join } from 'node:path';
import { missingPackage } from '../core/contracts/index.ts';

/**
 * Loads a CommonJS package when it is needed: from the `node_modules` next to this module, or, because a bundle may be elsewhere,
 * from those of the running program or of the working directory. Errors as `require` does. Bundlers do not see
 * the package, and leave it external.
 */
export function loadPackage(name: string): ReturnType<NodeJS.Require> {
  // Webpack leaves a named import of `createRequire` undefined.
  const { createRequire } = nodeModule;
  const failures: unknown[] = [];
  for (const place of places()) {
    try {
      return createRequire(place)(name);
    } catch (error) {
      failures.push(error);
    }
  }
  throw failures[0];
}

/**
 * Loads an optional package. Callers try `require` of it first: bundlers include a package whose `require` is inside `try`; Node has no
 * `require` in an ES module. Errors: `MISSING_PACKAGE`.
 */
export function installedPackage(name: string): ReturnType<NodeJS.Require> {
  try {
    return loadPackage(name);
  } catch (error) {
    throw missingPackage(name, error);
  }
}

function places(): readonly string[] {
  // Bundlers remove it, or replace it by the path of this file at build time.
  const here: string | undefined = import.meta.url;
  const program = process.argv[1];
  return [here, program, join(process.cwd(), 'package.json')].flatMap((place) => (place ? [place] : []));
}

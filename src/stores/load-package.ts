import * as nodeModule from 'node:module';
import { join } from 'node:path';
import { missingPackage } from '../core/contracts/index.ts';

/**
 * Loads a CommonJS package at the moment it is needed: from the `node_modules` beside this module, or, as the place of a bundle may say
 * nothing about those, from the ones of the program that runs or of the working folder. Errors as `require` does. Bundlers do not see
 * the package, and leave it where it is.
 */
export function loadPackage(name: string): ReturnType<NodeJS.Require> {
  // Webpack puts nothing in the place of `createRequire` that is imported by its name.
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
 * An optional package. Callers try `require` of it first: bundlers put a package into the bundle whose `require` stands inside `try`; Node has no
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
  // Bundlers leave nothing of it, or where this file was when the bundle was made.
  const here: string | undefined = import.meta.url;
  const program = process.argv[1];
  return [here, program, join(process.cwd(), 'package.json')].flatMap((place) => (place ? [place] : []));
}

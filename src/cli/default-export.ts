import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isNativeError } from 'node:util/types';
import { AgentLoopError, messageOf, nameOf } from '../core/contracts/index.ts';

/** A file that the command line names, and what it is for: `tools file`, `agent file`. */
export interface NamedFile {
  readonly kind: string;
  /** Relative to the working folder of the process. */
  readonly file: string;
}

/**
 * The default export of an ES module; `undefined` where it has none. What the module does when it is loaded is done. Rejects with
 * `INVALID_CONFIG`, naming the file and the cure, where it is not there or cannot be loaded.
 */
export async function defaultExport(named: NamedFile): Promise<unknown> {
  const { file } = named;
  const path = resolve(file);
  const found = await stat(path).catch((cause: unknown) => {
    throw invalidFile(named, 'cannot be found; check the path', cause);
  });
  if (!found.isFile())
    throw invalidFile(named, 'is not a file; name an ES module (.mjs or .js, or .ts with Node 22.18 or newer)');
  const loaded: unknown = await import(pathToFileURL(path).href).catch((cause: unknown) => {
    throw invalidFile(named, `cannot be loaded: ${describe(file, cause)}`, cause);
  });
  return typeof loaded === 'object' && loaded !== null && 'default' in loaded ? loaded.default : undefined;
}

export function invalidFile({ kind, file }: NamedFile, what: string, cause?: unknown): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', `The ${kind} "${file}" ${what.replace(/\.$/, '')}.`, { cause });
}

/** Only Node's own report of a syntax error shows its place; the error does not hold it. */
function describe(file: string, cause: unknown): string {
  if (
    isNativeError(cause) &&
    'code' in cause &&
    cause.code === 'ERR_UNKNOWN_FILE_EXTENSION' &&
    /\.[mc]?ts$/.test(file)
  ) {
    return `Node ${process.versions.node} does not run TypeScript; use Node 22.18 or newer, or compile it to an ES module (.mjs or .js)`;
  }
  const { code } = isNativeError(cause) && 'code' in cause ? cause : { code: undefined };
  if (code === 'ERR_IMPORT_ATTRIBUTE_MISSING' || code === 'ERR_IMPORT_ASSERTION_TYPE_MISSING')
    return 'it is not an ES module; name one (.mjs or .js)';
  const missing =
    code === 'ERR_MODULE_NOT_FOUND' ? /^Cannot find package '([^']+)'/.exec(messageOf(cause))?.[1] : undefined;
  if (missing !== undefined)
    return `the package "${missing}" is not installed; run \`npm install ${missing}\` beside the file`;
  const syntax = isNativeError(cause) && cause.name === 'SyntaxError';
  return `${nameOf(cause)}: ${messageOf(cause)}${syntax ? `; "node --check ${file}" shows where` : ''}`;
}

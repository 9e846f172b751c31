import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isNativeError } from 'node:util/types';
import { AgentLoopError, messageOf, nameOf } from '../core/errors.ts';
import { LocalToolProvider } from '../tools/local-tools.ts';
import { type Tool, tool } from '../tools/tool.ts';
import { assertToolOptions } from '../tools/tool-options.ts';

/**
 * The tools of an ES module whose default export is an array of `{ name, description, parameters, execute, … }`, or of
 * tools made by `tool()`. `file` is relative to the working folder of the process.
 *
 * Rejects with `INVALID_CONFIG`, naming the file and the cure, where the file is not there, cannot be loaded, exports
 * something else, or where a tool or its JSON Schema is not right. What the module does when it is loaded is done.
 */
export async function loadTools(file: string): Promise<LocalToolProvider> {
  const exported = await defaultExport(file);
  if (!Array.isArray(exported))
    throw invalid(file, `has to have an array of tools as its default export: export default [{ … }]`);
  const provider = new LocalToolProvider([], { name: file });
  for (const [index, entry] of exported.entries()) {
    await addTool(provider, entry).catch((thrown: unknown) => {
      throw invalid(file, `has a tool that is not right, #${index + 1}: ${messageOf(thrown)}`, thrown);
    });
  }
  return provider;
}

async function defaultExport(file: string): Promise<unknown> {
  const path = resolve(file);
  const found = await stat(path).catch((cause: unknown) => {
    throw invalid(file, 'cannot be found; check the path', cause);
  });
  if (!found.isFile()) throw invalid(file, 'is not a file; name an ES module (.mjs or .js)');
  const loaded: unknown = await import(pathToFileURL(path).href).catch((cause: unknown) => {
    throw invalid(file, `cannot be loaded: ${describe(file, cause)}`, cause);
  });
  return typeof loaded === 'object' && loaded !== null && 'default' in loaded ? loaded.default : undefined;
}

async function addTool(provider: LocalToolProvider, entry: unknown): Promise<void> {
  const added = isTool(entry) ? entry : madeOf(entry);
  await added.prepare?.();
  provider.register(added);
}

function madeOf(entry: unknown): Tool {
  assertToolOptions(entry);
  return tool(entry);
}

function isTool(entry: unknown): entry is Tool {
  return typeof entry === 'object' && entry !== null && 'definition' in entry && 'execute' in entry;
}

/** Only Node's own report of a syntax error shows its place; the error does not hold it. */
function describe(file: string, cause: unknown): string {
  const syntax = isNativeError(cause) && cause.name === 'SyntaxError';
  return `${nameOf(cause)}: ${messageOf(cause)}${syntax ? `; "node --check ${file}" shows where` : ''}`;
}

function invalid(file: string, what: string, cause?: unknown): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', `The tools file "${file}" ${what.replace(/\.$/, '')}.`, { cause });
}

import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isNativeError } from 'node:util/types';
import type { Agent } from '../agent/agent.ts';
import type { AgentOptions, AgentSettings } from '../agent/agent-options.ts';
import { type AgentLoopError, isObject, messageOf, nameOf, type ToolProvider } from '../core/contracts/index.ts';
import { LocalToolProvider } from '../tools/local-tools.ts';
import { type Tool, tool } from '../tools/tool.ts';
import { assertToolOptions } from '../tools/tool-options.ts';
import { invalidConfig } from './arguments.ts';

/**
 * The tools of an ES module whose default export is an array of `{ name, description, parameters, execute, … }`, or of
 * tools made by `tool()`, or a tool provider such as `agentTools([…])`. `file` is relative to the working folder of the process.
 *
 * Rejects with `INVALID_CONFIG`, naming the file and the cure, where the file is not there, cannot be loaded, exports
 * something else, or where a tool or its JSON Schema is not right. What the module does when it is loaded is done.
 */
export async function loadTools(file: string): Promise<ToolProvider> {
  const named = { kind: 'tools file', file };
  const exported = await defaultExport(named);
  if (isProvider(exported)) return exported;
  if (typeof exported === 'function')
    throw invalidFile(named, 'exports a function by default; export its result: export default [{ … }]');
  if (!Array.isArray(exported))
    throw invalidFile(
      named,
      'must have an array of tools or a tool provider as its default export: export default [{ … }]',
    );
  const provider = new LocalToolProvider([], { name: file });
  for (const [index, entry] of exported.entries()) {
    await addTool(provider, entry).catch((thrown: unknown) => {
      throw invalidFile(named, `has an invalid tool, #${index + 1}: ${messageOf(thrown)}`, thrown);
    });
  }
  return provider;
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

function isProvider(value: unknown): value is ToolProvider {
  return typeof value === 'object' && value !== null && 'getTools' in value && 'executeTool' in value;
}

function isTool(entry: unknown): entry is Tool {
  return typeof entry === 'object' && entry !== null && 'definition' in entry && 'execute' in entry;
}

/**
 * The agent of an ES module whose default export is an `Agent`, or the options of one, also of another copy of this package. `file` is
 * relative to the working folder of the process; `defaults` count where the agent does not say otherwise.
 *
 * Rejects with `INVALID_CONFIG`, naming the file and the cure, where the file is not there, cannot be loaded, or exports something else.
 */
export async function loadAgent(file: string, defaults: Partial<AgentSettings> = {}): Promise<Agent> {
  const named = { kind: 'agent file', file };
  const exported = await defaultExport(named);
  if (isAgent(exported)) return withDefaults(exported, defaults);
  if (typeof exported === 'function')
    throw invalidFile(named, 'exports a function by default; export its result: export default agent({ … })');
  if (!isOptions(exported))
    throw invalidFile(named, 'must have an agent as its default export: export default agent({ … })');
  const { agent } = await import('../agent/make-agent.ts');
  try {
    return agent({ ...defaults, ...exported });
  } catch (thrown) {
    throw invalidFile(named, `has an invalid agent: ${messageOf(thrown)}`, thrown);
  }
}

function withDefaults(given: Agent, defaults: Partial<AgentSettings>): Agent {
  const open = Object.entries(defaults).filter(([name]) => Reflect.get(given.options, name) === undefined);
  return open.length === 0 ? given : given.with(Object.fromEntries(open));
}

/** An agent of any copy of this package. */
function isAgent(value: unknown): value is Agent {
  if (typeof value !== 'object' || value === null) return false;
  return ['startTurn', 'resume', 'with', 'close'].every((name) => typeof Reflect.get(value, name) === 'function');
}

/** The options themselves are checked where the agent is made. */
function isOptions(value: unknown): value is AgentOptions {
  return isObject(value) && 'provider' in value;
}

/** A file that the command line names, and what it is for: `tools file`, `agent file`. */
interface NamedFile {
  readonly kind: string;
  /** Relative to the working folder of the process. */
  readonly file: string;
}

/**
 * The default export of an ES module; `undefined` where it has none. What the module does when it is loaded is done. Rejects with
 * `INVALID_CONFIG`, naming the file and the cure, where it is not there or cannot be loaded.
 */
async function defaultExport(named: NamedFile): Promise<unknown> {
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

function invalidFile({ kind, file }: NamedFile, what: string, cause?: unknown): AgentLoopError {
  return invalidConfig(`The ${kind} "${file}" ${what.replace(/\.$/, '')}.`, cause);
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

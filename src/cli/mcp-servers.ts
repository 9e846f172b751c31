import { readFileSync } from 'node:fs';
import { AgentLoopError, messageOf } from '../core/contracts/index.ts';
import type { McpServerOptions } from '../mcp/mcp-options.ts';
import { isHttpUrl } from './arguments.ts';
import { nameOfAddress, nameOfCommand } from './mcp-server-name.ts';
import type { Environment } from './style.ts';

type Servers = Readonly<Record<string, McpServerOptions>>;

/**
 * The MCP servers that the command line names: commands, addresses, and files of the form `{ "mcpServers": { name: { … } } }`, each of the first
 * two with `name=` in front or a name made of it. In a file `${NAME}` stands for a variable of the environment. All are required.
 * @throws AgentLoopError `INVALID_CONFIG`. Commands and addresses are not repeated: they may hold secrets.
 */
export function mcpServers(specs: readonly string[], env: Environment): Servers {
  const servers: Record<string, McpServerOptions> = {};
  for (const spec of specs) {
    if (isServersFile(spec)) addAll(servers, serversIn(spec, env));
    else add(servers, spec);
  }
  return servers;
}

export function isServersFile(spec: string): boolean {
  return /^\S+\.json$/.test(spec) && !isHttpUrl(spec);
}

function addAll(servers: Record<string, McpServerOptions>, more: Servers): void {
  for (const [name, server] of Object.entries(more)) {
    if (name in servers) throw invalid(`two MCP servers are called "${name}"; give one of them another name`);
    servers[name] = server;
  }
}

function add(servers: Record<string, McpServerOptions>, spec: string): void {
  const [, given, rest = spec] = /^([a-zA-Z0-9_-]{1,32})=(.*)$/s.exec(spec) ?? [];
  const server = isHttpUrl(rest) ? { url: rest, required: true } : commandOf(rest);
  const name = given ?? unusedName('url' in server ? nameOfAddress(rest) : nameOfCommand(server), servers);
  addAll(servers, { [name]: server });
}

function commandOf(text: string): {
  readonly command: string;
  readonly args: readonly string[];
  readonly required: true;
} {
  const [command, ...args] = shellWords(text);
  if (command !== undefined) return { command, args, required: true };
  throw invalid('--mcp is empty; give a command, an address, or a file of servers');
}

function unusedName(wanted: string, servers: Servers): string {
  for (let count = 1; ; count++) {
    const unused = count === 1 ? wanted : `${wanted}-${count}`;
    if (!(unused in servers)) return unused;
  }
}

function serversIn(file: string, env: Environment): Servers {
  const fail = (what: string, cause?: unknown) => invalid(`the file of MCP servers "${file}" ${what}`, cause);
  let parsed: unknown;
  try {
    parsed = JSON.parse(readFileSync(file, 'utf8'));
  } catch (thrown) {
    if (thrown instanceof SyntaxError) throw fail(`is not JSON: ${messageOf(thrown)}`, thrown);
    throw fail(`cannot be read: ${messageOf(thrown)}; check the path`, thrown);
  }
  const listed = isRecord(parsed) ? (parsed['mcpServers'] ?? parsed['servers']) : undefined;
  if (!isRecord(listed) || Object.keys(listed).length === 0)
    throw fail('holds no servers: write { "mcpServers": { "name": { "command": … } } }');
  const expand = (text: string) =>
    text.replaceAll(/\$\{(?:env:)?(\w+)\}/g, (_match, name: string) => {
      const value = env[name];
      if (value === undefined) throw fail(`needs the environment variable ${name}, which is not set`);
      return value;
    });
  return Object.fromEntries(
    Object.entries(listed).flatMap(([name, entry]) => {
      if (!isRecord(entry)) throw fail(`has a server "${name}" that is not an object`);
      const { type, disabled, ...server } = { type: undefined, disabled: undefined, required: true, ...entry };
      if (disabled === true) return [];
      if (type === 'sse') throw fail(`has a server "${name}" of the type "sse", which is deprecated; use "http"`);
      return [[name, expanded(server, expand)]];
    }),
  );
}

/** What is wrong with it is found where the servers are used. */
function expanded(server: object, expand: (text: string) => string): McpServerOptions {
  const text = JSON.stringify(server);
  return JSON.parse(text, (_key, value: unknown) => (typeof value === 'string' ? expand(value) : value));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function invalid(message: string, cause?: unknown): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', message, { cause });
}

/**
 * The words of a command, quotes and backslashes as a shell has them, and nothing else of a shell: no variables, no pipes. Throws
 * `INVALID_CONFIG` for a quote without an end.
 */
function shellWords(text: string): readonly string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote = '';
  for (let index = 0; index < text.length; index++) {
    const char = text.charAt(index);
    if (quote !== "'" && char === '\\' && index + 1 < text.length) word = (word ?? '') + text.charAt(++index);
    else if (quote !== '') {
      if (char === quote) quote = '';
      else word = (word ?? '') + char;
    } else if (char === '"' || char === "'") {
      quote = char;
      word ??= '';
    } else if (!/\s/.test(char)) word = (word ?? '') + char;
    else if (word !== undefined) {
      words.push(word);
      word = undefined;
    }
  }
  if (quote !== '') throw new AgentLoopError('INVALID_CONFIG', `a quote (${quote}) has no end in a command of --mcp`);
  return word === undefined ? words : [...words, word];
}

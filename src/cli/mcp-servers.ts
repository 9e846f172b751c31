import { readFileSync } from 'node:fs';
import { isObject, messageOf } from '../core/contracts/index.ts';
import type { McpServerOptions } from '../mcp/mcp-options.ts';
import type { McpTools } from '../mcp/mcp-tools.ts';
import { invalidConfig, isHttpUrl } from './arguments.ts';
import { Interrupted, type Interruption } from './command-host.ts';
import { type Environment, note, type Terminal } from './terminal.ts';

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
    if (name in servers) throw invalidConfig(`two MCP servers are called "${name}"; rename one of them`);
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
  throw invalidConfig('--mcp is empty; give a command, an address, or a file of servers');
}

function unusedName(wanted: string, servers: Servers): string {
  for (let count = 1; ; count++) {
    const unused = count === 1 ? wanted : `${wanted}-${count}`;
    if (!(unused in servers)) return unused;
  }
}

function serversIn(file: string, env: Environment): Servers {
  const fail = (what: string, cause?: unknown) => invalidConfig(`the file of MCP servers "${file}" ${what}`, cause);
  let parsed: unknown;
  try {
    parsed = JSON.parse(readFileSync(file, 'utf8'));
  } catch (thrown) {
    if (thrown instanceof SyntaxError) throw fail(`is not JSON: ${messageOf(thrown)}`, thrown);
    throw fail(`cannot be read: ${messageOf(thrown)}; check the path`, thrown);
  }
  const listed = isObject(parsed) ? (parsed['mcpServers'] ?? parsed['servers']) : undefined;
  if (!isObject(listed) || Object.keys(listed).length === 0)
    throw fail('holds no servers: write { "mcpServers": { "name": { "command": … } } }');
  const expand = (text: string) =>
    text.replaceAll(/\$\{(?:env:)?(\w+)\}/g, (_match, name: string) => {
      const value = env[name];
      if (value === undefined) throw fail(`needs the environment variable ${name}, which is not set`);
      return value;
    });
  return Object.fromEntries(
    Object.entries(listed).flatMap(([name, entry]) => {
      if (!isObject(entry)) throw fail(`has a server "${name}" that is not an object`);
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
  if (quote !== '') throw invalidConfig(`a quote (${quote}) has no end in a command of --mcp`);
  return word === undefined ? words : [...words, word];
}

interface McpRequest {
  readonly specs: readonly string[] | undefined;
  readonly terminal: Terminal;
  /** Breaks off the connecting. Absent where nothing interrupts. */
  readonly interruption: Interruption | undefined;
}

/**
 * Connects to the MCP servers that the command line names. Undefined where it names none.
 * @throws Interrupted where the connecting was broken off.
 * @throws AgentLoopError `INVALID_CONFIG`, `MISSING_PACKAGE`; `TOOL_FAILED` for a server that cannot be reached. None is left running then.
 */
export async function openMcp({ specs, terminal, interruption }: McpRequest): Promise<McpTools | undefined> {
  if (specs === undefined || specs.length === 0) return undefined;
  const { withLogins } = await import('./mcp-login.ts');
  const servers = await withLogins(mcpServers(specs, terminal.env), terminal.env);
  const { mcpTools } = await import('../mcp/mcp-tools.ts');
  const silent = () => {};
  const warn = (message: string, fields: Readonly<Record<string, unknown>> = {}) =>
    note(terminal, sentenceOf(message, fields));
  const tools = mcpTools({ servers, logger: { debug: silent, info: silent, warn, error: warn } });
  const stop = () => void tools.close();
  const signal = interruption?.signal;
  signal?.addEventListener('abort', stop, { once: true });
  try {
    if (signal?.aborted) stop();
    await tools.connect();
    return tools;
  } catch (thrown) {
    await tools.close();
    throw interruption?.exitCode === undefined ? thrown : new Interrupted(interruption.exitCode);
  } finally {
    signal?.removeEventListener('abort', stop);
  }
}

function sentenceOf(message: string, { server, tool, why }: Readonly<Record<string, unknown>>): string {
  const what = [tool, server].filter((each) => each !== undefined).join(' of ');
  return `${message}: ${what}: ${String(why)}`;
}

/** Leaves room for a numeric suffix within the 32 characters of a server's name. */
const maxLength = 28;

interface CommandLine {
  readonly command: string;
  readonly args: readonly string[];
}

/** Programs that run the one that their arguments name. */
interface Runner {
  readonly name: RegExp;
  /** Behind these comes something else than the program. */
  readonly valued?: RegExp;
  /** Behind these comes the text of a program, which has no name. */
  readonly inline?: RegExp;
}

const runners: readonly Runner[] = [
  { name: /^(npx|npm|pnpm|yarn|bunx)$/, valued: /^--(registry|cache|prefix)$/, inline: /^(-c|--call)$/ },
  {
    name: /^(node|bun|deno|tsx)$/,
    valued: /^(-r|-C|--(require|import|loader|experimental-loader|env-file|conditions|config))$/,
    inline: /^(-e|-p|-pe|--eval|--print|eval)$/,
  },
  { name: /^python[\d.]*$/, valued: /^-[WX]$/, inline: /^-c$/ },
  { name: /^uvx?$/, valued: /^(-p|-w|--(python|with|directory|project|env-file|index|index-url|default-index))$/ },
  {
    name: /^(docker|podman)$/,
    valued:
      /^(-[evpuwmlh]|--(env|env-file|volume|mount|publish|name|network|user|workdir|platform|entrypoint|label|add-host|memory|cpus|gpus))$/,
  },
];

/** `run`, `npm exec`, `pnpm dlx`, `bun x`, `uv tool run`. */
const orders = /^(run|exec|dlx|x|tool)$/;
const generic = /^(index|main|server|cli|start)$/;
const folders = /^(|\.|\.\.|dist|build|src|lib|bin)$/;

/** A name for the server at an address: of `https://mcp.linear.app/mcp` it is `linear`. An address in numbers has its port. */
function nameOfAddress(url: string): string {
  const { hostname, port } = new URL(url);
  const suffix = port === '' ? '' : `-${port}`;
  if (/^[\d.]+$|^\[/.test(hostname)) return lettersOf(`ip-${(hostname.match(/[\da-f]+/g) ?? []).join('-')}${suffix}`);
  const labels = hostname.split('.');
  if (labels.length === 1) return lettersOf(`${hostname}${suffix}`);
  const own = labels.slice(0, -1);
  return lettersOf(own.find((label) => !/^(www|mcp|api)$/.test(label)) ?? own[0] ?? hostname);
}

/** A name for the server that a command starts: of `npx -y @scope/server-files@1 /tmp` it is `files`. It holds no values of flags. */
function nameOfCommand({ command, args }: CommandLine): string {
  const own = lastOf(command).replace(/\.exe$/, '');
  const runner = runners.find(({ name }) => name.test(own));
  const program = runner ? programOf(runner, args) : undefined;
  const name = program === undefined ? own : nameOfProgram(program);
  return lettersOf(name.replace(/^(mcp[-_])?server[-_]|^mcp[-_]|[-_]mcp([-_]server)?$|[-_]server$/g, ''));
}

/** The first argument that is no flag, no value of one, and no order. */
function programOf({ valued, inline }: Runner, args: readonly string[]): string | undefined {
  for (let index = 0; index < args.length; index++) {
    const arg = args[index] ?? '';
    if (inline?.test(arg)) return undefined;
    if (valued?.test(arg)) index++;
    else if (!arg.startsWith('-') && !arg.includes('=') && !orders.test(arg)) return arg;
  }
  return undefined;
}

/** Without version, tag and ending; where it is a file that any program might have, the folder that holds it. */
function nameOfProgram(program: string): string {
  const parts = program
    .replace(/(?<=[^/\\])@[^/\\@]*$/, '')
    .replace(/:[^/\\]*$/, '')
    .split(/[/\\]/);
  const name = (parts.pop() ?? '').replace(/\.([cm]?[jt]s|py)$/, '');
  return (generic.test(name) && parts.findLast((part) => !folders.test(part))) || name;
}

function lastOf(path: string): string {
  return path.split(/[/\\]/).at(-1) ?? path;
}

function lettersOf(name: string): string {
  const letters = name
    .replaceAll(/[^a-zA-Z0-9_-]/g, '_')
    .slice(0, maxLength)
    .replace(/[-_]+$/, '');
  return letters || 'server';
}

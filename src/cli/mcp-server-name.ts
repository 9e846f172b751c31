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
export function nameOfAddress(url: string): string {
  const { hostname, port } = new URL(url);
  const behind = port === '' ? '' : `-${port}`;
  if (/^[\d.]+$|^\[/.test(hostname)) return lettersOf(`ip-${(hostname.match(/[\da-f]+/g) ?? []).join('-')}${behind}`);
  const labels = hostname.split('.');
  if (labels.length === 1) return lettersOf(`${hostname}${behind}`);
  const own = labels.slice(0, -1);
  return lettersOf(own.find((label) => !/^(www|mcp|api)$/.test(label)) ?? own[0] ?? hostname);
}

/** A name for the server that a command starts: of `npx -y @scope/server-files@1 /tmp` it is `files`. It holds no values of flags. */
export function nameOfCommand({ command, args }: CommandLine): string {
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

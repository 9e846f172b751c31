import { resolve } from 'node:path';
import type { Reasoning, StartOptions } from '../core/contracts/index.ts';
import { shownUrl } from '../observability/otel-environment.ts';
import { isHttpUrl } from './arguments.ts';
import { isServersFile } from './mcp-servers.ts';
import { type StoreFlags, type StoreSettings, shownStore } from './store.ts';
import type { NewTurnFlags, TurnFlags } from './turn-flags.ts';

/** A task, and what the command line said when it ran. */
export interface TaskPlace {
  readonly taskId: string;
  readonly store: StoreSettings;
  readonly flags: TurnFlags;
}

/** The command that resumes a task, with the options that it was run with, quoted for a shell. */
export function resumeCommand({ taskId, ...place }: TaskPlace): string {
  return ['millrace resume', taskId, ...optionsOf(place)].join(' ');
}

/** The command that continues a conversation, with the options of the one before. */
export function chatCommand(contextId: string, { store, flags }: ChatPlace): string {
  const { system, maxIterations, reasoning } = flags;
  const ofTurns = [
    ...(system === undefined ? [] : ['--system', quoted(system)]),
    ...(maxIterations === undefined ? [] : ['--max-iterations', String(maxIterations)]),
    ...(reasoning === undefined ? [] : ['--reasoning', shownReasoning(reasoning)]),
  ];
  return ['millrace chat --context-id', quoted(contextId), ...ofTurns, ...optionsOf({ store, flags })].join(' ');
}

function shownReasoning(reasoning: Reasoning): string {
  return typeof reasoning === 'string' ? reasoning : String(reasoning.budgetTokens);
}

interface ChatPlace extends Omit<TaskPlace, 'taskId'> {
  readonly flags: NewTurnFlags;
}

function optionsOf({ store, flags }: Omit<TaskPlace, 'taskId'>): readonly string[] {
  const { agent, tools, mcp = [], baseUrl, model, apiKeyEnv } = flags;
  const options: readonly (readonly [name: string, value: string | undefined])[] = [
    ['--agent', agent],
    ['--tools', tools],
    ...mcp.map((server) => ['--mcp', server] as const),
    ['--base-url', baseUrl === undefined ? undefined : shownUrl(baseUrl)],
    ['--model', model],
    ['--api-key-env', apiKeyEnv],
  ];
  const given = options.flatMap(([name, value]) => (value === undefined ? [] : [name, quoted(value)]));
  return [...given, ...storeOption(store, flags)];
}

/** The command that shows a task. */
export function showCommand({ taskId, store, flags }: TaskPlace): string {
  return ['millrace show', taskId, ...storeOption(store, flags)].join(' ');
}

/** The command that ends a task. */
function cancelCommand({ taskId, store, flags }: TaskPlace): string {
  return ['millrace cancel', taskId, ...storeOption(store, flags)].join(' ');
}

/** The command that shows a task, and follows it. */
export function watchCommand({ taskId, store, flags }: TaskPlace): string {
  return ['millrace show', taskId, '--watch', ...storeOption(store, flags)].join(' ');
}

/** The command that lists the tasks of a store. */
export function tasksCommand({ store, flags }: Omit<TaskPlace, 'taskId'>): string {
  return ['millrace tasks', ...storeOption(store, flags)].join(' ');
}

/** A value as one word of a shell. */
export function quoted(value: string): string {
  return /^[\w@%+=:,./-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`;
}

/** What the environment says, the next command finds there too. */
function storeOption(store: StoreSettings, flags: StoreFlags): readonly string[] {
  return flags.store === undefined ? [] : ['--store', quoted(shownStore(store))];
}

/** Why a conversation has a turn that nobody runs, and the commands that end that. */
export function whyOpen(status: 'suspended' | 'dead', place: TaskPlace): string {
  const why = status === 'suspended' ? 'waits for an answer or was paused' : 'was cut off';
  return `${why}; continue it with "${resumeCommand(place)}", or end it with "${cancelCommand(place)}"`;
}

/** The options that a resumed turn needs again. */
type KeptFlags = Pick<TurnFlags, (typeof names)[number] | 'mcp'>;

const names = ['tools', 'baseUrl', 'model', 'apiKeyEnv'] as const;
const member = 'millrace';
/** A journal may come from anywhere; what could steer a terminal or end a line is no option. */
const printable = /^\P{C}+$/u;

/** The metadata of a turn that keeps its options, so that any command can print the one that resumes it. It contains no secret. */
export function keepFlags({ tools, mcp, baseUrl, model, apiKeyEnv }: KeptFlags): Pick<StartOptions, 'metadata'> {
  const servers = mcp?.map(keptServer) ?? [];
  const kept = {
    ...(tools !== undefined && { tools: resolve(tools) }),
    ...(servers.length > 0 && servers.every((each) => each !== undefined) && { mcp: servers }),
    ...(baseUrl !== undefined && { baseUrl: shownUrl(baseUrl) }),
    ...(model !== undefined && { model }),
    ...(apiKeyEnv !== undefined && { apiKeyEnv }),
  };
  return Object.keys(kept).length === 0 ? {} : { metadata: { [member]: kept } };
}

/** The settings of a new turn, which its journal keeps, and the options to resume it with. */
export function turnSettings(
  flags: NewTurnFlags,
): Pick<StartOptions, 'systemPrompt' | 'maxIterations' | 'reasoning' | 'metadata'> {
  const { system, maxIterations, reasoning } = flags;
  return {
    ...(system !== undefined && { systemPrompt: system }),
    ...(maxIterations !== undefined && { maxIterations }),
    ...(reasoning !== undefined && { reasoning }),
    ...keepFlags(flags),
  };
}

/** A file, or an address without what may be secret in it. Of a command nobody knows what is. */
function keptServer(server: string): string | undefined {
  if (isServersFile(server)) return resolve(server);
  const [, name = '', url = ''] = /^([\w-]+=)?(https?:.*)$/.exec(server) ?? [];
  return isHttpUrl(url) ? `${name}${shownUrl(url)}` : undefined;
}

/** The place with the options that the turn was started with, where the command line does not say others, or an agent in place of them all. */
export function withKeptFlags(place: TaskPlace, metadata: Readonly<Record<string, unknown>>): TaskPlace {
  if (place.flags.agent !== undefined) return place;
  return { ...place, flags: { ...keptFlags(metadata[member]), ...place.flags } };
}

function keptFlags(kept: unknown): KeptFlags {
  if (typeof kept !== 'object' || kept === null) return {};
  const read = (name: string): unknown => Reflect.get(kept, name);
  const mcp = read('mcp');
  const areUsable = Array.isArray(mcp) && mcp.every((each) => typeof each === 'string' && printable.test(each));
  const single = Object.fromEntries(
    names.flatMap((name) => {
      const value = read(name);
      const isUsable =
        typeof value === 'string' && printable.test(value) && (name !== 'baseUrl' || URL.canParse(value));
      return isUsable ? [[name, value]] : [];
    }),
  );
  return areUsable ? { ...single, mcp } : single;
}

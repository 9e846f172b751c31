import { shownUrl } from '../observability/otlp-endpoint.ts';
import { type StoreFlags, type StoreSettings, shownStore } from './store-settings.ts';
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
  const { system, maxIterations } = flags;
  const ofTurns = [
    ...(system === undefined ? [] : ['--system', quoted(system)]),
    ...(maxIterations === undefined ? [] : ['--max-iterations', String(maxIterations)]),
  ];
  return ['millrace chat --context-id', quoted(contextId), ...ofTurns, ...optionsOf({ store, flags })].join(' ');
}

interface ChatPlace extends Omit<TaskPlace, 'taskId'> {
  readonly flags: NewTurnFlags;
}

function optionsOf({ store, flags }: Omit<TaskPlace, 'taskId'>): readonly string[] {
  const { tools, mcp = [], baseUrl, model, apiKeyEnv } = flags;
  const options: readonly (readonly [name: string, value: string | undefined])[] = [
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
export function cancelCommand({ taskId, store, flags }: TaskPlace): string {
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

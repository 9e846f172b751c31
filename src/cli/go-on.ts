import { shownUrl } from '../observability/otlp-endpoint.ts';
import { type StoreFlags, type StoreSettings, shownStore } from './store-settings.ts';
import type { TurnFlags } from './turn-flags.ts';

/** A task, and what the command line said when it ran. */
export interface TaskPlace {
  readonly taskId: string;
  readonly store: StoreSettings;
  readonly flags: TurnFlags;
}

/** The command that goes on with a task, with the options that it was run with: to be copied into a shell. */
export function resumeCommand({ taskId, store, flags }: TaskPlace): string {
  const { tools, mcp = [], baseUrl, model, apiKeyEnv } = flags;
  const options: readonly (readonly [name: string, value: string | undefined])[] = [
    ['--tools', tools],
    ...mcp.map((server) => ['--mcp', server] as const),
    ['--base-url', baseUrl === undefined ? undefined : shownUrl(baseUrl)],
    ['--model', model],
    ['--api-key-env', apiKeyEnv],
  ];
  const given = options.flatMap(([name, value]) => (value === undefined ? [] : [name, quoted(value)]));
  return ['millrace resume', taskId, ...given, ...storeOption(store, flags)].join(' ');
}

/** The command that shows a task. */
export function showCommand({ taskId, store, flags }: TaskPlace): string {
  return ['millrace show', taskId, ...storeOption(store, flags)].join(' ');
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

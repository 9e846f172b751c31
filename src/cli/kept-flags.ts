import { resolve } from 'node:path';
import type { StartOptions } from '../core/contracts/index.ts';
import { shownUrl } from '../observability/otlp-endpoint.ts';
import { isHttpUrl } from './arguments.ts';
import { isServersFile } from './mcp-servers.ts';
import type { TaskPlace } from './next-commands.ts';
import type { NewTurnFlags, TurnFlags } from './turn-flags.ts';

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
export function turnSettings(flags: NewTurnFlags): Pick<StartOptions, 'systemPrompt' | 'maxIterations' | 'metadata'> {
  const { system, maxIterations } = flags;
  return {
    ...(system !== undefined && { systemPrompt: system }),
    ...(maxIterations !== undefined && { maxIterations }),
    ...keepFlags(flags),
  };
}

/** A file, or an address without what may be secret in it. Of a command nobody knows what is. */
function keptServer(server: string): string | undefined {
  if (isServersFile(server)) return resolve(server);
  const [, name = '', url = ''] = /^([\w-]+=)?(https?:.*)$/.exec(server) ?? [];
  return isHttpUrl(url) ? `${name}${shownUrl(url)}` : undefined;
}

/** The place with the options that the turn was started with, where the command line does not say others. */
export function withKeptFlags(place: TaskPlace, metadata: Readonly<Record<string, unknown>>): TaskPlace {
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

import { resolve } from 'node:path';
import type { StartOptions } from '../core/config.ts';
import { shownUrl } from '../observability/otlp-endpoint.ts';
import type { TaskPlace } from './go-on.ts';
import type { TurnFlags } from './turn-flags.ts';

/** The options that a turn needs again when it goes on. */
type KeptFlags = Pick<TurnFlags, (typeof names)[number]>;

const names = ['tools', 'baseUrl', 'model', 'apiKeyEnv'] as const;
const member = 'millrace';
/** A journal may come from anywhere; what could steer a terminal or end a line is no option. */
const printable = /^\P{C}+$/u;

/** The metadata of a turn that keeps its options, so that any command can print the one that goes on. Nothing secret is in it. */
export function keepFlags({ tools, baseUrl, model, apiKeyEnv }: KeptFlags): Pick<StartOptions, 'metadata'> {
  const kept = {
    ...(tools !== undefined && { tools: resolve(tools) }),
    ...(baseUrl !== undefined && { baseUrl: shownUrl(baseUrl) }),
    ...(model !== undefined && { model }),
    ...(apiKeyEnv !== undefined && { apiKeyEnv }),
  };
  return Object.keys(kept).length === 0 ? {} : { metadata: { [member]: kept } };
}

/** The place with the options that the turn was started with, where the command line does not say others. */
export function withKeptFlags(place: TaskPlace, metadata: Readonly<Record<string, unknown>>): TaskPlace {
  return { ...place, flags: { ...keptFlags(metadata[member]), ...place.flags } };
}

function keptFlags(kept: unknown): KeptFlags {
  if (typeof kept !== 'object' || kept === null) return {};
  const read = (name: string): unknown => Reflect.get(kept, name);
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = read(name);
      const isUsable =
        typeof value === 'string' && printable.test(value) && (name !== 'baseUrl' || URL.canParse(value));
      return isUsable ? [[name, value]] : [];
    }),
  );
}

import type { LLMCapabilities } from '../core/contracts/index.ts';

const names: Readonly<Record<keyof LLMCapabilities, true>> = {
  streaming: true,
  tools: true,
  toolChoice: true,
  responseFormat: true,
};

/** What a capability must be, in the user's words. */
export const capabilityWords = `one of ${Object.keys(names).join(', ')}, and true or false`;

/** The first member of capabilities that is none, or neither true nor false. */
export function wrongCapability(capabilities: object): string | undefined {
  return Object.entries(capabilities).find(
    ([name, value]) => !Object.hasOwn(names, name) || (value !== undefined && typeof value !== 'boolean'),
  )?.[0];
}

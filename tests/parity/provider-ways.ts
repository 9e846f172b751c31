import type { ScriptedLLMOptions } from 'millrace/testing';

/** The ways in which a provider may answer. What a turn does must not depend on them. */
export const providerWays = [
  ['stream', {}],
  ['call only', { streaming: false }],
  ['a stream that answers at once', { synchronous: true }],
] as const satisfies readonly (readonly [string, ScriptedLLMOptions])[];

import {
  type CallSettings,
  copySettings,
  type LLMProvider,
  turnCallNames,
  turnCallSettingsOf,
} from '../contracts/provider.ts';
import { stableJson } from '../contracts/values.ts';
import type { CallDetails, LlmStart, ShownOptions } from './records.ts';
import { type LoopState, noOptions, type StartedModelCall } from './state.ts';

/** The settings of the next model call: the configuration's, overridden by the extensions' changes for the rest of the turn. */
export function callSettings(own: CallSettings, { changes }: LoopState): CallSettings {
  const settings: CallSettings = {};
  copySettings(settings, own);
  copySettings(settings, changes.settings);
  return settings;
}

/**
 * The options of the next call for its record; `undefined` if they equal those of the previous call. `view`: the settings after hooks changed
 * them. Allocates nothing if there is no difference: this is the hot path.
 */
export function changedOptions(
  config: CallSettings & { readonly llmProvider: Pick<LLMProvider, 'info'> },
  { call, changes }: LoopState,
  view: CallSettings | undefined,
): CallDetails | undefined {
  const before = call?.options ?? noOptions;
  const own: CallSettings = view ?? config;
  const changed: CallSettings = view ?? changes.settings;
  const model = changed.model ?? own.model ?? config.llmProvider.info?.model;
  const responseFormat = (changed.responseFormat ?? own.responseFormat)?.name;
  let isSame = model === before.model && responseFormat === before.responseFormat;
  for (const name of shownNames) {
    const value = changed[name] ?? own[name];
    if (value !== before[name]) isSame &&= isSameSetting(value, before[name]);
  }
  if (isSame) return undefined;
  const merged: CallSettings = {};
  copySettings(merged, own);
  copySettings(merged, changed);
  const { toolChoice } = merged;
  return {
    ...(model !== undefined && { model }),
    ...(toolChoice !== undefined && { toolChoice }),
    ...turnCallSettingsOf(merged),
    ...(responseFormat !== undefined && { responseFormat }),
  };
}

/** The settings that are recorded as they are. */
const shownNames = ['toolChoice', ...turnCallNames] as const;

function isSameSetting(one: unknown, other: unknown): boolean {
  return typeof one === 'object' && typeof other === 'object' && stableJson(one) === stableJson(other);
}

/** The options of a call according to its record; the previous call's object if the record changes neither options nor tools. */
export function optionsAfter(before: StartedModelCall | undefined, { options, tools }: LlmStart): ShownOptions {
  const known = before?.options ?? noOptions;
  if (!options && !tools) return known;
  const offered = tools ? tools.map(({ name }) => name) : known.tools;
  return options ? { tools: offered, ...options } : { ...known, tools: offered };
}

/** The last iteration that the turn may have; each agent that runs it has its own limit. */
export function maxIterationsOf({ maxIterations }: { readonly maxIterations: number }, state: LoopState): number {
  return state.changes.settings.maxIterations ?? iterationsBefore(state) + maxIterations;
}

/** The iterations that do not count towards the current agent's limit: those of earlier agents, or of the retried turn. */
export function iterationsBefore({ segment, turn: { retried } }: LoopState): number {
  return retried && retried.iterations > segment.after ? retried.iterations : segment.after;
}

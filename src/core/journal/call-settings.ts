import type { CallSettings, LLMProvider } from '../contracts/provider.ts';
import type { CallDetails, LlmStart, ShownOptions } from './records.ts';
import { type LoopState, noOptions, type StartedCall } from './state.ts';

/** The settings of the next model call: the configuration's, overridden by the extensions' changes for the rest of the turn. */
export function callSettings({ config }: { readonly config: CallSettings }, { changes }: LoopState): CallSettings {
  const settings: { -readonly [Name in keyof CallSettings]: CallSettings[Name] } = {};
  copySettings(settings, config);
  copySettings(settings, changes.settings);
  return settings;
}

/**
 * The options of the next call for its record; `undefined` if they equal those of the previous call. `view`: the settings after hooks changed
 * them. Allocates nothing if there is no difference: this is the hot path.
 */
export function changedOptions(
  { config, provider }: { readonly config: CallSettings; readonly provider: Pick<LLMProvider, 'info'> },
  { call, changes }: LoopState,
  view: CallSettings | undefined,
): CallDetails | undefined {
  const before = call?.options ?? noOptions;
  const own: CallSettings = view ?? config;
  const changed: CallSettings = view ?? changes.settings;
  const model = changed.model ?? own.model ?? provider.info?.model;
  const toolChoice = changed.toolChoice ?? own.toolChoice;
  const temperature = changed.temperature ?? own.temperature;
  const maxTokens = changed.maxTokens ?? own.maxTokens;
  const responseFormat = (changed.responseFormat ?? own.responseFormat)?.name;
  const isSame =
    model === before.model &&
    isSameChoice(toolChoice, before.toolChoice) &&
    temperature === before.temperature &&
    maxTokens === before.maxTokens &&
    responseFormat === before.responseFormat;
  if (isSame) return undefined;
  return {
    ...(model !== undefined && { model }),
    ...(toolChoice !== undefined && { toolChoice }),
    ...(temperature !== undefined && { temperature }),
    ...(maxTokens !== undefined && { maxTokens }),
    ...(responseFormat !== undefined && { responseFormat }),
  };
}

function isSameChoice(a: CallSettings['toolChoice'], b: CallSettings['toolChoice']): boolean {
  return a === b || (typeof a === 'object' && typeof b === 'object' && a.name === b.name);
}

/** The options of a call according to its record; the previous call's object if the record changes neither options nor tools. */
export function optionsAfter(before: StartedCall | undefined, { options, tools }: LlmStart): ShownOptions {
  const known = before?.options ?? noOptions;
  if (!options && !tools) return known;
  const offered = tools ? tools.map(({ name }) => name) : known.tools;
  return options ? { tools: offered, ...options } : { ...known, tools: offered };
}

/** Copies the defined settings. Written out: this is the hot path. */
export function copySettings(
  to: { -readonly [Name in keyof CallSettings]: CallSettings[Name] },
  { model, toolChoice, temperature, maxTokens, responseFormat, providerOptions }: CallSettings,
): void {
  if (model !== undefined) to.model = model;
  if (toolChoice !== undefined) to.toolChoice = toolChoice;
  if (temperature !== undefined) to.temperature = temperature;
  if (maxTokens !== undefined) to.maxTokens = maxTokens;
  if (responseFormat !== undefined) to.responseFormat = responseFormat;
  if (providerOptions !== undefined) to.providerOptions = providerOptions;
}

/** The last iteration that the turn may have; each agent that runs it has its own limit. */
export function maxIterationsOf({ maxIterations }: { readonly maxIterations: number }, state: LoopState): number {
  return state.changes.settings.maxIterations ?? iterationsBefore(state) + maxIterations;
}

/** The iterations that do not count towards the current agent's limit: those of earlier agents, or of the retried turn. */
export function iterationsBefore({ segment, turn: { retried } }: LoopState): number {
  return retried && retried.iterations > segment.after ? retried.iterations : segment.after;
}

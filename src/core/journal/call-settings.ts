import type { CallSettings, LLMProvider } from '../contracts/provider.ts';
import type { CallDetails, LlmStart, ShownOptions } from './records.ts';
import { type LoopState, noOptions, type StartedCall } from './state.ts';

/** The settings of the next model call: the configuration's, as far as no extension changed them for the rest of the turn. */
export function callSettings({ config }: { readonly config: CallSettings }, { changes }: LoopState): CallSettings {
  const settings: { -readonly [Name in keyof CallSettings]: CallSettings[Name] } = {};
  copySettings(settings, config);
  copySettings(settings, changes.settings);
  return settings;
}

/**
 * The options of the next call as its record says them; nothing where they are those of the call before. `view`: the settings that hooks made of
 * them. Makes no object where there is nothing to say: this is the hot path.
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

/** What a call is made with by its record; the same object as for the call before where that says neither options nor tools. */
export function optionsAfter(before: StartedCall | undefined, { options, tools }: LlmStart): ShownOptions {
  const known = before?.options ?? noOptions;
  if (!options && !tools) return known;
  const offered = tools ? tools.map(({ name }) => name) : known.tools;
  return options ? { tools: offered, ...options } : { ...known, tools: offered };
}

/** Writes the settings that are given over those that are there. Written out: this is the hot path. */
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

/** The last iteration that the turn may have by now; each agent that runs it has its own number of them. */
export function maxIterationsOf({ maxIterations }: { readonly maxIterations: number }, state: LoopState): number {
  return state.changes.settings.maxIterations ?? iterationsBefore(state) + maxIterations;
}

/** The iterations that count for an agent that ran the turn before, or for the turn that is retried. */
export function iterationsBefore({ segment, turn: { retried } }: LoopState): number {
  return retried && retried.iterations > segment.after ? retried.iterations : segment.after;
}

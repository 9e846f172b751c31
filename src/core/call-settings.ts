import type { CallSettings } from '../providers/interfaces.ts';
import type { LoopState } from './state.ts';
import type { RunDeps } from './turn-deps.ts';

/** The settings of the next model call: the configuration's, as far as no extension changed them for the rest of the turn. */
export function callSettings({ config }: RunDeps, { changes }: LoopState): CallSettings {
  const settings: { -readonly [Name in keyof CallSettings]: CallSettings[Name] } = {};
  copySettings(settings, config);
  copySettings(settings, changes.settings);
  return settings;
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
export function maxIterationsOf({ maxIterations }: Pick<RunDeps, 'maxIterations'>, state: LoopState): number {
  return state.changes.settings.maxIterations ?? iterationsBefore(state) + maxIterations;
}

/** The iterations that count for an agent that ran the turn before, or for the turn that is retried. */
export function iterationsBefore({ stint, turn: { retried } }: LoopState): number {
  return retried && retried.iterations > stint.after ? retried.iterations : stint.after;
}

import type { CallSettings } from '../providers/interfaces.ts';
import type { LoopState } from './state.ts';
import type { RunDeps } from './turn-deps.ts';

const names = ['model', 'toolChoice', 'temperature', 'maxTokens', 'responseFormat', 'providerOptions'] as const;

/** The settings of the next model call: the configuration's, as far as no extension changed them for the rest of the turn. */
export function callSettings({ config }: RunDeps, { changes }: LoopState): CallSettings {
  const settings: { -readonly [Name in keyof CallSettings]: CallSettings[Name] } = {};
  copySettings(settings, config);
  copySettings(settings, changes.settings);
  return settings;
}

/** Writes the settings that are given over those that are there. */
export function copySettings(
  to: { -readonly [Name in keyof CallSettings]: CallSettings[Name] },
  from: CallSettings,
): void {
  for (const name of names) {
    const value = from[name];
    if (value !== undefined) Object.assign(to, { [name]: value });
  }
}

/** How many model calls the turn may make by now. */
export function maxIterationsOf({ maxIterations }: Pick<RunDeps, 'maxIterations'>, { changes }: LoopState): number {
  return changes.settings.maxIterations ?? maxIterations;
}

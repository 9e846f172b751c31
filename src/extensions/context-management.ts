import type { Extension } from '../core/contracts/index.ts';
import { assertOptions, type OptionKind } from '../providers/policies/policy-options.ts';
import { compactHistory } from './compact-history.ts';
import type { CompactionOptions } from './context/compaction-options.ts';
import { type ToolOutputCacheOptions, toolOutputCache } from './tool-output-cache.ts';
import { type WindowOptions, windowHistory } from './window-history.ts';

export interface ContextManagementOptions {
  /** Default: on, with its defaults. `null`: tool outputs are sent whole. */
  readonly toolOutputCache?: ToolOutputCacheOptions | null | undefined;
  /** Default: on, with its defaults. `null`: the history is not compacted. */
  readonly compaction?: CompactionOptions | null | undefined;
  /** Default: off, as with `null`. `{}`: the last 50 messages. */
  readonly window?: WindowOptions | null | undefined;
}

const settings: OptionKind = { isValid: (value) => typeof value === 'object', words: 'an object of options, or null' };

/**
 * What keeps requests small, in the one order in which it works: old tool outputs are shortened, then the history is compacted, then it is
 * cut; each sees what the one before it left. Other extensions go before or behind all of them.
 * Errors: `INVALID_CONFIG`, naming the option.
 */
export function contextManagement(options: ContextManagementOptions = {}): readonly Extension[] {
  assertOptions('contextManagement', options, { toolOutputCache: settings, compaction: settings, window: settings });
  const { toolOutputCache: outputs = {}, compaction = {}, window = null } = options;
  return [
    ...(outputs ? [toolOutputCache(outputs)] : []),
    ...(compaction ? [compactHistory(compaction)] : []),
    ...(window ? [windowHistory(window)] : []),
  ];
}

import type { Extension, IterationView, Message } from '../core/contracts/index.ts';
import { estimateTokens, type TokenCounter } from '../core/model-call/index.ts';
import { aFunction, assertOptions, type OptionRule, wholeNumber } from '../core/options/index.ts';
import { compactHistory } from './compact-history.ts';
import { isSummary } from './context/compaction.ts';
import type { CompactionOptions } from './context/compaction-options.ts';
import { cutHistory } from './context/cut-history.ts';
import { requestOverhead } from './context/turn-tokens.ts';
import { type ToolOutputCacheOptions, toolOutputCache } from './tool-output-cache.ts';

/** Options of `contextManagement`: which of its three parts are on. */
export interface ContextManagementOptions {
  /** Default: on, with its defaults. `null`: tool outputs are sent whole. */
  readonly toolOutputCache?: ToolOutputCacheOptions | null | undefined;
  /** Default: on, with its defaults. `null`: the history is not compacted. */
  readonly compaction?: CompactionOptions | null | undefined;
  /** Default: off, as with `null`. `{}`: the last 50 messages. */
  readonly window?: WindowOptions | null | undefined;
}

const settings: OptionRule = { fits: (value) => typeof value === 'object', must: 'be an object of options, or null' };

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

/** Options of `windowHistory`: how much of the history a request has. */
export interface WindowOptions {
  /** The most messages of a request, its system message not counted. Default 50. */
  readonly maxMessages?: number | undefined;
  /** The most tokens of a request: its system message, its tools and its messages. Default: any number. */
  readonly maxTokens?: number | undefined;
  /** Default: an estimate by characters. */
  readonly countTokens?: TokenCounter | undefined;
}

/**
 * Each model call sees the end of the history only: the longest one within both limits that a model accepts, as calls and their results
 * are never torn apart. The history stays whole. The newest message is seen in any case, with the call and the results that belong
 * to it; a summary that compaction put in front counts, and is the last to go. Linear in the history.
 * Errors: `INVALID_CONFIG`, naming the option.
 */
export function windowHistory(options: WindowOptions = {}): Extension {
  assertOptions('windowHistory', options, {
    maxMessages: wholeNumber(1),
    maxTokens: wholeNumber(1),
    countTokens: aFunction,
  });
  return {
    name: 'window',
    prepareIteration: (view) => {
      const messages = lastMessages(view, options);
      return messages === view.messages ? undefined : { view: { messages } };
    },
  };
}

function lastMessages(view: IterationView, options: WindowOptions): readonly Message[] {
  const { maxMessages = 50, maxTokens, countTokens = estimateTokens } = options;
  const { messages } = view;
  if (maxTokens === undefined && messages.length <= maxMessages) return messages;
  const [first] = messages;
  const summary = first && isSummary(first) && maxMessages > 1 ? first : undefined;
  const taken = maxTokens === undefined ? 0 : requestOverhead(view, countTokens) + (summary ? countTokens(summary) : 0);
  const cut = cutHistory(summary ? messages.slice(1) : messages, {
    maxMessages: summary ? maxMessages - 1 : maxMessages,
    ...(maxTokens === undefined ? {} : { maxTokens: maxTokens - taken, countTokens }),
  });
  if (cut.removed.length === 0) return messages;
  return summary ? [summary, ...cut.messages] : cut.messages;
}

import type { Extension, IterationView, Message } from '../core/contracts/index.ts';
import { estimateTokens, type TokenCounter } from '../core/model-call/index.ts';
import { aFunction, assertOptions, type OptionRule, wholeNumber } from '../options/option-rules.ts';
import { compactHistory } from './compact-history.ts';
import { isSummary } from './context/compaction.ts';
import type { CompactionOptions } from './context/compaction-options.ts';
import { cutHistory } from './context/cut-history.ts';
import { requestOverhead } from './context/turn-tokens.ts';
import { type ToolOutputCacheOptions, toolOutputCache } from './tool-output-cache.ts';

/** Options of `contextManagement`: its three parts. */
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
 * The extensions that keep requests small, in the required order: truncate old tool outputs, then compact the history, then cut
 * it; each receives the result of the previous one. Put other extensions before or after all of them.
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

/** Options of `windowHistory`: the size of the window. */
export interface WindowOptions {
  /** The maximum number of messages of a request, without its system message. Default 50. */
  readonly maxMessages?: number | undefined;
  /** The maximum number of tokens of a request: its system message, its tools and its messages. Default: no limit. */
  readonly maxTokens?: number | undefined;
  /** Default: an estimate by characters. */
  readonly countTokens?: TokenCounter | undefined;
}

/**
 * Each model call receives the end of the history only: the longest one within both limits that a model accepts; calls and their results
 * are never separated. The history stays whole. The newest message is always included, with its call and
 * results; a summary of a compaction counts, and is removed last. Linear in the history.
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

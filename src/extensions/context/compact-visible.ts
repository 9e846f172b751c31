import type { Context } from '@opentelemetry/api';
import type { Usage } from '../../core/contracts/index.ts';
import type { TokenCounter } from '../../core/model-call/index.ts';
import { type CompactionOptions, summarizerOf } from './compaction-options.ts';
import { type ModelInUse, tokenLimit } from './context-limits.ts';
import { summarize } from './summarize.ts';
import { type Compaction, isSummary, summaryMessage } from './summary-message.ts';
import { messageTokens } from './view-tokens.ts';
import { keptFrom, type VisibleHistory } from './visible-history.ts';

export interface CompactionWork {
  readonly options: CompactionOptions;
  readonly inUse: ModelInUse;
  /** Of the next request, as it would be. */
  readonly tokens: number;
  readonly countTokens: TokenCounter;
  readonly signal?: AbortSignal | undefined;
  readonly traceContext?: Context | undefined;
  /** Told what calls took of which no summary came. */
  readonly noteUsage?: ((usage: Usage) => void) | undefined;
}

export interface Compacted {
  readonly compaction: Compaction;
  /** Of the summarising calls. */
  readonly usage: Usage;
  /** Of the next request, as it is now. */
  readonly tokensAfter: number;
}

/** Fewer are not worth a model call. */
const leastMessages = 2;

/**
 * Sums up what is older than the newest `keepLast` messages, and of these what takes more than half of the limit. Resolves with nothing where
 * too little is older. Rejects as `summarize`.
 */
export async function compactVisible(visible: VisibleHistory, work: CompactionWork): Promise<Compacted | undefined> {
  const { options, inUse, tokens, countTokens, signal, traceContext, noteUsage } = work;
  const { keepLast: maxMessages = 10 } = options;
  const limit = tokenLimit(options, inUse);
  const from = keptFrom(visible.messages, { maxMessages, maxTokens: Math.floor(limit / 2), countTokens });
  const older = visible.messages.slice(0, from);
  if (older.filter((message) => !isSummary(message)).length < leastMessages) return undefined;
  const summarizer = summarizerOf(options, inUse, limit);
  const { text, usage } = await summarize(older, { ...summarizer, signal, traceContext, noteUsage });
  const compaction = { upTo: visible.countBefore(from), summary: text };
  const summary = summaryMessage(compaction);
  const kept = messageTokens([summary, ...visible.messages.slice(from)], countTokens);
  const left = tokens - messageTokens(older, countTokens) + countTokens(summary);
  return { compaction, usage, tokensAfter: Math.max(kept, left) };
}

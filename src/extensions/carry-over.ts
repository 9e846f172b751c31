import type { Context } from '@opentelemetry/api';
import type { LLMProvider, Message, Usage } from '../core/contracts/index.ts';
import { isInstruction, type LoopState } from '../core/journal/index.ts';
import { estimateTokens } from '../core/model-call/index.ts';
import { compactVisible } from './context/compact-visible.ts';
import { assertCompactionOptions, type CompactionOptions } from './context/compaction-options.ts';
import { tokenLimit } from './context/context-limits.ts';
import {
  type Compaction,
  compactionName,
  isCompaction,
  isSummary,
  summarizedUpTo,
  summaryMessage,
} from './context/summary-message.ts';
import { messageTokens } from './context/view-tokens.ts';
import { VisibleHistory } from './context/visible-history.ts';

/**
 * What the next turn of a context begins with: the summary, and the messages behind what it stands for; instructions among the
 * others stay, in front. Without a compaction: the messages as they are. `messages` are all those of the context.
 */
export function carryOver(messages: readonly Message[], compaction: Compaction | undefined): readonly Message[] {
  if (!compaction) return messages;
  const instructions = messages.slice(0, compaction.upTo).filter(isInstruction);
  return [...instructions, summaryMessage(compaction), ...messages.slice(compaction.upTo)];
}

/**
 * The compaction that a turn made last, in positions of its context: of one that began with what {@link carryOver} gave, or with all
 * messages of the context, and whose messages stand behind those there. `undefined`: it made none, and the one before holds.
 * From the folded journal, so also of a turn that another process ran.
 */
export function compactionOfTurn({ changes, history }: LoopState): Compaction | undefined {
  const compaction = changes.data[compactionName];
  if (!isCompaction(compaction)) return undefined;
  const messages = history.toArray();
  const carriedAt = messages.findIndex((message) => isSummary(message));
  const carried = summarizedUpTo(messages[carriedAt]);
  if (carried === undefined) return compaction;
  return { ...compaction, upTo: compaction.upTo + carried - (carriedAt + 1) };
}

/** The compaction that is kept in a context's metadata under `compaction`. */
export function compactionOf(metadata: Readonly<Record<string, unknown>>): Compaction | undefined {
  const compaction = metadata[compactionName];
  return isCompaction(compaction) ? compaction : undefined;
}

/** The metadata of a context with a compaction to be found by {@link compactionOf}. */
export function withCompaction(
  metadata: Readonly<Record<string, unknown>>,
  compaction: Compaction,
): Readonly<Record<string, unknown>> {
  return { ...metadata, [compactionName]: { upTo: compaction.upTo, summary: compaction.summary } };
}

/** The turns of a context, and what is known of it. */
export interface ContextTurns {
  /** Its context window counts, and it makes the summarising call where the options name no other. */
  readonly provider: LLMProvider;
  /** Default: the provider's own. */
  readonly model?: string;
  /** The compaction so far. */
  readonly compaction?: Compaction | undefined;
  readonly signal?: AbortSignal;
  /** The parent of what the summarising call traces. */
  readonly traceContext?: Context;
  /** Told what the summarising calls took where no compaction comes of them. */
  readonly noteUsage?: (usage: Usage) => void;
}

/**
 * Compacts a context between its turns, after the end of one, so that the next begins with a short history: all its messages are given,
 * as a turn would begin with them. Resolves with the new compaction and what it took; with nothing where the context is short enough, or too
 * little of it is old. Rejects with what the provider says; nothing is lost then, as the next turn checks at its beginning.
 */
export async function compactConversation(
  messages: readonly Message[],
  options: CompactionOptions,
  turns: ContextTurns,
): Promise<{ readonly compaction: Compaction; readonly usage: Usage } | undefined> {
  assertCompactionOptions('compactConversation', options);
  const { provider, model, compaction, signal, traceContext, noteUsage } = turns;
  const { countTokens = estimateTokens } = options;
  const visible = new VisibleHistory(messages, compaction);
  const tokens = messageTokens(visible.messages, countTokens);
  const inUse = { provider, model };
  if (tokens <= tokenLimit(options, inUse)) return undefined;
  const work = { options, inUse, tokens, countTokens, signal, traceContext, noteUsage };
  const compacted = await compactVisible(visible, work);
  return compacted && { compaction: compacted.compaction, usage: compacted.usage };
}

import type { ContextPage, ContextSummary } from '../../core/contracts/index.ts';

/** What a store knows of a context without its messages; times in milliseconds since 1970. */
export interface ContextFigures {
  readonly contextId: string;
  readonly total: number;
  /** How many turns are open. */
  readonly open: number;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Of its messages, where they are counted. */
  readonly bytes?: number;
}

export function summaryOf({ contextId, total, open, createdAt, updatedAt, bytes }: ContextFigures): ContextSummary {
  return {
    contextId,
    total,
    openTurns: open,
    createdAt: new Date(createdAt).toISOString(),
    updatedAt: new Date(updatedAt).toISOString(),
    ...(bytes !== undefined && { bytes }),
  };
}

/** A page of at most `limit` out of summaries in order, of which there is one more where there is a next page. */
export function pageOf(summaries: readonly ContextSummary[], limit: number): ContextPage {
  const contexts = summaries.slice(0, limit);
  const last = contexts.at(-1);
  return summaries.length > limit && last ? { contexts, next: last.contextId } : { contexts };
}

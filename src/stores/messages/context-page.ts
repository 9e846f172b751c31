import type { ContextPage, ContextSummary } from './message-store.ts';

/** A page of at most `limit` out of summaries in order, of which there is one more where there is a next page. */
export function pageOf(summaries: readonly ContextSummary[], limit: number): ContextPage {
  const contexts = summaries.slice(0, limit);
  const last = contexts.at(-1);
  return summaries.length > limit && last ? { contexts, next: last.contextId } : { contexts };
}

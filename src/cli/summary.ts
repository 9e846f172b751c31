import type { FinishedSpan } from '../observability/finished-span.ts';
import { type Tally, tallyLine } from './tally.ts';
import type { Terminal } from './terminal.ts';

/** Wider ones are harder to read. */
const widest = 110;

/** Sums a turn up in a line on stderr; one that failed before anything happened needs none. */
export function showTally(tally: Tally, { stderr, errorStyle, shared }: Terminal): void {
  const isGood = tally.final?.status.state === 'completed';
  if (!isGood && tally.toolCalls === 0 && tally.tokens === 0) return;
  const gap = shared ? '\n' : '';
  void stderr.write(`${gap}${errorStyle.dim(`  ${tallyLine(tally, errorStyle.glyphs.dot)}`)}\n`);
}

/** Draws spans on stderr. */
export async function showWaterfall(spans: readonly FinishedSpan[], { stderr, errorStyle }: Terminal): Promise<void> {
  const { renderWaterfall } = await import('../observability/waterfall.ts');
  const { color, unicode } = errorStyle;
  void stderr.write(`\n${renderWaterfall(spans, { width: Math.min(stderr.columns, widest) - 1, color, unicode })}`);
}

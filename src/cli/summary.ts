import type { FinishedSpan } from '../observability/finished-span.ts';
import { type Tally, tallyLine } from './tally.ts';
import type { Terminal } from './terminal.ts';

/** Wider ones are harder to read. */
const widest = 110;

/**
 * Sums a turn up in a line on stderr, with its id where it can be looked at later; one that failed before anything happened needs
 * none.
 */
export function showTally(tally: Tally, { stderr, errorStyle, shared }: Terminal, taskId?: string): void {
  const isGood = tally.final?.status.state === 'completed';
  if (!isGood && tally.toolCalls === 0 && tally.tokens === 0) return;
  const gap = shared ? '\n' : '';
  const { dot } = errorStyle.glyphs;
  const task = taskId === undefined ? '' : ` ${dot} task ${taskId}`;
  void stderr.write(`${gap}${errorStyle.dim(`  ${tallyLine(tally, dot)}${task}`)}\n`);
}

/** Draws spans on stderr. */
export async function showWaterfall(spans: readonly FinishedSpan[], { stderr, errorStyle }: Terminal): Promise<void> {
  const { renderWaterfall } = await import('../observability/waterfall.ts');
  const { color, unicode } = errorStyle;
  void stderr.write(`\n${renderWaterfall(spans, { width: Math.min(stderr.columns, widest) - 1, color, unicode })}`);
}

import type { History } from '../../core/journal/index.ts';

/** How many of the last tool calls failed, one after another, in call order. Messages in front of `from` are not looked at. */
export function failuresInARow(history: History, from: number): number {
  let failures = 0;
  for (let index = history.length - 1; index >= from; index--) {
    const message = history.at(index);
    if (message?.role !== 'tool') continue;
    if (message.status !== 'error') break;
    failures++;
  }
  return failures;
}

import type { StartOptions, Turn, TurnError, TurnResult } from 'millrace';
import type { AgentLoop } from 'millrace/internals';
import type { FakeClock } from 'millrace/testing';
import { type Watcher, watch } from '../watch-events.ts';

export const question = [{ role: 'user', content: 'How many apples?' }] as const;

export interface FinishedTurn {
  readonly turn: Turn;
  readonly seen: Watcher;
  /** What `result()` gave, or what it rejected with. */
  readonly result: TurnResult | TurnError;
}

/** Runs one turn to its end, with a subscriber. Where a clock is given, time passes meanwhile. */
export async function runTurn(
  loop: AgentLoop,
  { clock, ...options }: StartOptions & { readonly clock?: FakeClock } = {},
): Promise<FinishedTurn> {
  const turn = loop.startTurn(question, options);
  const seen = watch(turn);
  const settled = turn.result().catch((error: TurnError) => error);
  const result = await (clock ? whilePassing(clock, settled) : settled);
  await seen.ended;
  return { turn, seen, result };
}

/** Lets time pass, 10 ms at a time, until `outcome` settles. */
export async function whilePassing<T>(clock: FakeClock, outcome: Promise<T>): Promise<T> {
  let settled = false;
  const watched = outcome.finally(() => {
    settled = true;
  });
  watched.catch(() => undefined);
  for (;;) {
    await new Promise((resolve) => setImmediate(resolve));
    if (settled) return watched;
    clock.advance(10);
  }
}

/** A promise that passes `ms` milliseconds of a clock. */
export function wait(clock: FakeClock, ms: number): Promise<void> {
  return new Promise((resolve) => clock.schedule(ms, resolve));
}

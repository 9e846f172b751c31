import { AgentLoopError, type LoopState } from 'millrace';
import { commitOf, journal } from 'millrace/internals';
import type { Commit, Signal } from 'millrace/operators';
import { map } from 'rxjs';
import { type AppendAnswer, answeringStore } from './answering-store.ts';
import { type MarbleHelpers, marbles } from './marbles.ts';
import { startedState } from './turn-deps.ts';

export const stamper = { epoch: 1, now: () => 0 };
export const down = new AgentLoopError('UNAVAILABLE', 'down', { retryable: true });
export const fenced = new AgentLoopError('FENCED', 'fenced');

/** Commits that follow each other, of one record each, from record 2 on. */
export function commitChain(length: number, start: LoopState = startedState()): readonly Commit[] {
  const chain: Commit[] = [];
  for (let state = start; chain.length < length; state = chain.at(-1)?.after ?? state) {
    chain.push(commitOf(stamper, state, [{ type: 'x.note', data: chain.length }], chain.length === 1));
  }
  return chain;
}

export const [a, b, c] = commitChain(3) as [Commit, Commit, Commit];
export const values = {
  a,
  b,
  c,
  t: { type: 'text', text: 'Two ' },
  u: { type: 'text', text: 'apples' },
  m: { type: 'text', text: 'Two apples' },
  r: { type: 'reasoning', text: 'hm' },
  p: { type: 'tool-progress', callId: '1:0', toolName: 'count', update: 50 },
} satisfies Record<string, Signal>;

/** A signal in short; a commit by its own name, so that it has to be the very same. */
export function shown(signal: Signal): string {
  if (signal.type !== 'commit') return JSON.stringify(signal);
  return `commit ${[a, b, c].indexOf(signal)}`;
}

export const expected = Object.fromEntries(Object.entries(values).map(([letter, signal]) => [letter, shown(signal)]));

export interface Diagram {
  readonly source: string;
  /** How the store answers, append by append; those beyond it at once. */
  readonly answers: (helpers: MarbleHelpers) => readonly AppendAnswer[];
  readonly out: string;
  readonly error?: unknown;
  readonly subscribed: string;
  readonly leave?: string;
  readonly storeDeadlineMs?: number;
}

/** Writes a source to a store, and gives what the store was sent and when timers ran that nobody cancelled. */
export function draw(diagram: Diagram) {
  const { appends, fired } = marbles((helpers) => {
    const { clock, hot, expectObservable, expectSubscriptions } = helpers;
    const { appends, journal: target } = answeringStore(clock, diagram.answers(helpers));
    const source$ = hot<Signal>(diagram.source, values);
    const { storeDeadlineMs = 10_000 } = diagram;
    const written$ = source$.pipe(journal({ journal: target, clock, storeDeadlineMs }), map(shown));
    expectObservable(written$, diagram.leave).toBe(diagram.out, expected, diagram.error);
    expectSubscriptions(source$.subscriptions).toBe(diagram.subscribed);
    return { appends, fired: clock.fired };
  });
  return { appends, fired, sent: appends.map(({ at, seqs }) => `${seqs.join()}@${at}`) };
}

export function silent(ms: number): AgentLoopError {
  const message = `The store did not answer an append within ${ms} ms (storeDeadlineMs); the task can be resumed once it is back.`;
  return new AgentLoopError('UNAVAILABLE', message);
}

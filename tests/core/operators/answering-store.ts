import { type Clock, InMemoryStateStore } from 'millrace';
import type { AppendOptions, Lease } from 'millrace/types';
import { map, type Observable } from 'rxjs';
import { answerWhen } from './marbles.ts';

export const lease: Lease = { taskId: 'task', owner: 'owner', epoch: 1, seq: 1, leaseMs: 300 };

/** How a store answers one append: at once, by throwing, or when and as an Observable does. */
export type AppendAnswer = 'at once' | { readonly throws: Error } | Observable<unknown>;

export interface Append extends AppendOptions {
  readonly at: number;
  readonly seqs: readonly number[];
}

/** A place to write a journal to whose appends answer by plan, in the order of the calls; those beyond it answer at once. */
export function answeringStore(clock: Clock, plan: readonly AppendAnswer[] = []) {
  const appends: Append[] = [];
  const append: InMemoryStateStore['append'] = (_lease, records, options) => {
    appends.push({ at: clock.now(), seqs: records.map(({ seq }) => seq), ...options });
    const answer = plan[appends.length - 1] ?? 'at once';
    if (answer === 'at once') return;
    if ('throws' in answer) throw answer.throws;
    return answerWhen(answer.pipe(map(() => undefined)));
  };
  return { appends, journal: { store: Object.assign(new InMemoryStateStore({ clock }), { append }), lease } };
}

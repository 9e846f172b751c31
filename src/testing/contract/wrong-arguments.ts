import { isObservable, lastValueFrom, takeUntil, timer } from 'rxjs';
import { refuses } from '../store-contract/expectations.ts';

/** Arguments that a method has to refuse, each a whole call. */
export type WrongArguments<Store> = { readonly [Method in keyof Store]?: readonly (readonly unknown[])[] };

/** Asserts that each call is refused as `INVALID_INPUT`, also where a subscriber, within the deadline, or a reader gets the error. */
export async function refusesWrongArguments<Store extends object>(
  store: Store,
  calls: WrongArguments<Store>,
  deadlineMs = 1_000,
): Promise<void> {
  const call = (name: string, given: readonly unknown[]): unknown => {
    const method: unknown = Reflect.get(store, name);
    if (typeof method !== 'function') throw new TypeError(`${name} is not a method`);
    return Reflect.apply(method, store, given);
  };
  for (const [name, wrong] of Object.entries<readonly (readonly unknown[])[] | undefined>(calls)) {
    for (const given of wrong ?? []) {
      await refuses('INVALID_INPUT', () => completed(call(name, given), deadlineMs)).catch((cause: unknown) => {
        throw new Error(`${name}(${given.map(shown).join(', ')})`, { cause });
      });
    }
  }
}

/** The outcome for a caller that awaits the end of a result. */
async function completed(answer: unknown, deadlineMs: number): Promise<void> {
  if (isObservable(answer)) await lastValueFrom(answer.pipe(takeUntil(timer(deadlineMs))), { defaultValue: undefined });
  else if (isIteration(answer)) for await (const _ of answer);
  else await answer;
}

function isIteration(answer: unknown): answer is AsyncIterable<unknown> {
  return typeof answer === 'object' && answer !== null && Symbol.asyncIterator in answer;
}

function shown(value: unknown): string {
  return JSON.stringify(value) ?? String(value);
}

/** What is neither a string nor an object of options. */
export const notText: readonly unknown[] = [undefined, null, 7, true, {}, ['t']];
export const notOptions: readonly unknown[] = [null, 't1', 7, ['t1'], { taskID: 't1' }];
export const notNumber: readonly unknown[] = [null, '1', Number.NaN, {}];

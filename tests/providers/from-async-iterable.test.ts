import { describe, expect, it } from '@jest/globals';
import { fromAsyncIterable } from 'millrace';
import type { IterationScope } from 'millrace/types';
import { lastValueFrom, take, toArray } from 'rxjs';

interface Step {
  readonly resolve: (result: IteratorResult<string>) => void;
  readonly reject: (error: unknown) => void;
}

/** An iterator whose every `next` waits for the test, and that a `return` does not wake. */
function blockingSource() {
  const steps: Step[] = [];
  const waiting: ((step: Step) => void)[] = [];
  const seen = { subscriptions: 0, nexts: 0, returns: 0, signals: [] as AbortSignal[] };
  const iterator: AsyncIterator<string> = {
    next() {
      seen.nexts += 1;
      return new Promise((resolve, reject) => {
        const step = { resolve, reject };
        const wake = waiting.shift();
        if (wake === undefined) steps.push(step);
        else wake(step);
      });
    },
    return() {
      seen.returns += 1;
      return Promise.resolve({ done: true, value: undefined });
    },
  };
  const factory = ({ signal }: IterationScope): AsyncIterable<string> => {
    seen.subscriptions += 1;
    seen.signals.push(signal);
    return { [Symbol.asyncIterator]: () => iterator };
  };
  const blocked = (): Promise<Step> => {
    const step = steps.shift();
    return step === undefined ? new Promise((resolve) => waiting.push(resolve)) : Promise.resolve(step);
  };
  return { seen, factory, blocked };
}

async function* count(upTo: number, onEnd: () => void = () => {}): AsyncGenerator<number> {
  try {
    for (let n = 1; n <= upTo; n++) yield n;
  } finally {
    onEnd();
  }
}

describe('fromAsyncIterable', () => {
  it('is cold: nothing happens before a subscription, and each has an iteration and a signal of its own', async () => {
    const source = blockingSource();
    const values = fromAsyncIterable(source.factory);
    expect(source.seen.subscriptions).toBe(0);
    const subscriptions = [values.subscribe(), values.subscribe()];
    expect(source.seen.subscriptions).toBe(2);
    expect(source.seen.signals[0]).not.toBe(source.seen.signals[1]);
    subscriptions[0]?.unsubscribe();
    expect(source.seen.signals.map(({ aborted }) => aborted)).toEqual([true, false]);
    subscriptions[1]?.unsubscribe();
  });

  it('S4-16 passes values as they are produced, asking for one at a time', async () => {
    const source = blockingSource();
    const got: string[] = [];
    const completed = new Promise<void>((resolve) => {
      fromAsyncIterable(source.factory).subscribe({ next: (value) => got.push(value), complete: resolve });
    });
    (await source.blocked()).resolve({ done: false, value: 'a' });
    const second = await source.blocked();
    expect(got).toEqual(['a']);
    expect(source.seen.nexts).toBe(2);
    second.resolve({ done: false, value: 'b' });
    (await source.blocked()).resolve({ done: true, value: undefined });
    await completed;
    expect(got).toEqual(['a', 'b']);
  });

  it('S4-16 S4-38 unsubscribing aborts the signal and closes the iterator at once, while it is blocked in next', async () => {
    const source = blockingSource();
    const got: string[] = [];
    const subscription = fromAsyncIterable(source.factory).subscribe((value) => got.push(value));
    (await source.blocked()).resolve({ done: false, value: 'a' });
    const blocked = await source.blocked();
    subscription.unsubscribe();
    expect(source.seen.signals[0]?.aborted).toBe(true);
    expect(source.seen.returns).toBe(1);

    blocked.resolve({ done: false, value: 'late' });
    await new Promise(setImmediate);
    expect(got).toEqual(['a']);
    expect(source.seen.nexts).toBe(2);
  });

  it('gives one signal however often it is read, also after the subscriber has left', () => {
    const scopes: IterationScope[] = [];
    const never = { next: () => new Promise<IteratorResult<number>>(() => {}) };
    const values = fromAsyncIterable((scope) => {
      scopes.push(scope);
      return { [Symbol.asyncIterator]: () => never };
    });
    const early = values.subscribe();
    const signal = scopes[0]?.signal;
    early.unsubscribe();
    values.subscribe().unsubscribe();
    expect(scopes[0]?.signal).toBe(signal);
    for (const scope of scopes) {
      expect(scope.signal.aborted).toBe(true);
      expect(scope.signal.reason).toMatchObject({ name: 'AbortError' });
    }
  });

  it('drops an error that comes after unsubscribing', async () => {
    const source = blockingSource();
    const errors: unknown[] = [];
    const subscription = fromAsyncIterable(source.factory).subscribe({ error: (error) => errors.push(error) });
    const blocked = await source.blocked();
    subscription.unsubscribe();
    blocked.reject(new Error('aborted'));
    await new Promise(setImmediate);
    expect(errors).toEqual([]);
  });

  it('closes the iterator when an operator has enough', async () => {
    let ended = 0;
    const source = fromAsyncIterable(() => count(Number.POSITIVE_INFINITY, () => ended++));
    expect(await lastValueFrom(source.pipe(take(3), toArray()))).toEqual([1, 2, 3]);
    await new Promise(setImmediate);
    expect(ended).toBe(1);
  });

  it('neither aborts nor closes what ended or failed by itself', async () => {
    const source = blockingSource();
    const result = lastValueFrom(fromAsyncIterable(source.factory), { defaultValue: 'nothing' });
    (await source.blocked()).resolve({ done: true, value: undefined });
    expect(await result).toBe('nothing');
    const failed = lastValueFrom(fromAsyncIterable(source.factory));
    (await source.blocked()).reject(new Error('broken'));
    await expect(failed).rejects.toThrow('broken');
    expect(source.seen.returns).toBe(0);
    expect(source.seen.signals.map(({ aborted }) => aborted)).toEqual([false, false]);
  });

  it('turns a throw of the factory, of next and of the generator into an error', async () => {
    const broken = (): never => {
      throw new Error('broken');
    };
    const nextThrows = { [Symbol.asyncIterator]: () => ({ next: broken }) };
    async function* generator(): AsyncGenerator<number> {
      yield 1;
      broken();
    }
    await expect(lastValueFrom(fromAsyncIterable(broken))).rejects.toThrow('broken');
    await expect(lastValueFrom(fromAsyncIterable(() => nextThrows))).rejects.toThrow('broken');
    await expect(lastValueFrom(fromAsyncIterable(generator))).rejects.toThrow('broken');
  });

  it('survives an iterator without return, and one whose return fails', async () => {
    const never = () => new Promise<IteratorResult<number>>(() => {});
    const failing = [
      { next: never },
      { next: never, return: () => Promise.reject(new Error('late')) },
      {
        next: never,
        return: () => {
          throw new Error('at once');
        },
      },
    ];
    for (const iterator of failing) {
      const subscription = fromAsyncIterable(() => ({ [Symbol.asyncIterator]: () => iterator })).subscribe();
      expect(() => subscription.unsubscribe()).not.toThrow();
    }
    await new Promise(setImmediate);
  });

  it('reads a stream of 50,000 values without growing the stack', async () => {
    const last = await lastValueFrom(fromAsyncIterable(() => count(50_000)));
    expect(last).toBe(50_000);
  });
});

import { setTimeout as sleep } from 'node:timers/promises';
import { AgentLoopError, type TaskStateStore } from 'millrace';
import type { Random } from '../random.ts';
import { withMethods } from './with-methods.ts';

export interface Distance {
  /** The longest way to the store, and back. Milliseconds. */
  readonly delayMs: number;
  /** How likely the answer to an append is lost on the way. */
  readonly loss: number;
}

/**
 * A store in this process that answers as one behind a slow and lossy network: calls reach it in the order they are made, each some
 * time later, and answers come in that order too.
 */
export function distantStore(store: TaskStateStore, random: Random, distance: Distance): TaskStateStore {
  const there = new Road(random, distance.delayMs);
  const back = new Road(random, distance.delayMs);
  const distant =
    <A extends unknown[], T>(method: (...args: A) => T | Promise<T>) =>
    async (...args: A): Promise<T> => {
      await there.travel();
      const answer = Promise.resolve(method.apply(store, args));
      answer.catch(() => {});
      await back.travel();
      return answer;
    };
  const append = distant<Parameters<TaskStateStore['append']>, void>(store.append);
  return withMethods(store, {
    create: distant(store.create),
    acquire: distant(store.acquire),
    append: async (...args) => {
      const isLost = random.chance(distance.loss);
      await append(...args);
      if (isLost) throw new AgentLoopError('UNAVAILABLE', 'The answer was lost on the way.', { retryable: true });
    },
    renew: distant(store.renew),
    release: distant(store.release),
    read: distant(store.read),
  });
}

/** Who sets out first arrives first. */
class Road {
  readonly #random: Random;
  readonly #delayMs: number;
  #last: Promise<unknown> = Promise.resolve();

  constructor(random: Random, delayMs: number) {
    this.#random = random;
    this.#delayMs = delayMs;
  }

  travel(): Promise<void> {
    const before = this.#last;
    const own = sleep(this.#random.int(0, this.#delayMs));
    const arrival = (async () => {
      await before;
      await own;
    })();
    this.#last = arrival;
    return arrival;
  }
}

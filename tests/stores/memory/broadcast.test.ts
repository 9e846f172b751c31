import { afterEach, describe, expect, it } from '@jest/globals';
import { Broadcast } from 'millrace/stores';
import { config, Observable, type Subscription } from 'rxjs';

function joined(broadcast: Broadcast<number>, first: number[] = []): Observable<number> {
  return new Observable((subscriber) => broadcast.join(subscriber, [...first]));
}

describe('Broadcast', () => {
  afterEach(() => {
    config.onUnhandledError = null;
    config.onStoppedNotification = null;
  });

  it('gives what was before first, then each value, to every reader', () => {
    const broadcast = new Broadcast<number>();
    const [a, b]: number[][] = [[], []];
    joined(broadcast, [1, 2]).subscribe((value) => a?.push(value));
    broadcast.emit([3]);
    joined(broadcast).subscribe((value) => b?.push(value));
    broadcast.emit([4, 5]);
    expect(a).toEqual([1, 2, 3, 4, 5]);
    expect(b).toEqual([4, 5]);
  });

  it('puts what a handler emits behind all that was emitted before, for every reader', () => {
    const broadcast = new Broadcast<number>();
    const [a, b]: number[][] = [[], []];
    joined(broadcast).subscribe((value) => {
      a?.push(value);
      if (value < 10) broadcast.emit([value * 10]);
    });
    joined(broadcast).subscribe((value) => b?.push(value));
    broadcast.emit([1, 2]);
    expect(a).toEqual([1, 2, 10, 20]);
    expect(b).toEqual(a);
  });

  it('gives a reader that joins from inside a handler nothing twice', () => {
    const broadcast = new Broadcast<number>();
    const late: number[] = [];
    joined(broadcast).subscribe((value) => {
      if (value === 1) joined(broadcast, [1, 2]).subscribe((each) => late.push(each));
    });
    broadcast.emit([1, 2]);
    broadcast.emit([3]);
    expect(late).toEqual([1, 2, 3]);
  });

  it('emits nothing more to a reader that left from inside its handler, and forgets it', async () => {
    const broadcast = new Broadcast<number>();
    const seen: unknown[] = [];
    config.onStoppedNotification = (notification) => seen.push(notification);
    let subscription: Subscription | undefined;
    subscription = joined(broadcast).subscribe((value) => {
      seen.push(value);
      if (value === 2) subscription?.unsubscribe();
    });
    broadcast.emit([1, 2, 3]);
    broadcast.emit([4]);
    await new Promise((resolve) => setTimeout(resolve));
    expect(seen).toEqual([1, 2]);
    expect(broadcast.size).toBe(0);
  });

  it('ends each reader behind what it still has to get', () => {
    const broadcast = new Broadcast<number>();
    const seen: unknown[] = [];
    joined(broadcast).subscribe({
      next: (value) => {
        seen.push(value);
        if (value === 1) {
          broadcast.emit([3]);
          broadcast.complete();
          broadcast.emit([4]);
        }
      },
      complete: () => seen.push('complete'),
    });
    broadcast.emit([1, 2]);
    expect(seen).toEqual([1, 2, 3, 'complete']);
    expect(broadcast.size).toBe(0);
  });

  it('errors each reader once, and none that comes later', () => {
    const broadcast = new Broadcast<number>();
    const seen: unknown[] = [];
    const observer = { next: (value: number) => seen.push(value), error: (error: unknown) => seen.push(error) };
    joined(broadcast, [1]).subscribe(observer);
    broadcast.error('gone');
    broadcast.error('gone again');
    joined(broadcast, [2]).subscribe(observer);
    expect(seen).toEqual([1, 'gone', 2]);
  });

  it('goes on for the others where one handler throws', async () => {
    const broadcast = new Broadcast<number>();
    const seen: number[] = [];
    const thrown = new Error('in a handler');
    const reported = new Promise((resolve) => {
      config.onUnhandledError = resolve;
    });
    joined(broadcast).subscribe(() => {
      throw thrown;
    });
    joined(broadcast).subscribe((value) => seen.push(value));
    expect(() => broadcast.emit([1])).not.toThrow();
    expect(seen).toEqual([1]);
    expect(await reported).toBe(thrown);
  });
});

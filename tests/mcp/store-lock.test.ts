import { expect, it } from '@jest/globals';
import { withLock } from 'millrace/internals';
import { type McpAuthStore, memoryAuthStore } from 'millrace/mcp';
import { fakeClock } from 'millrace/testing';

/** What several processes see: an object of their own each, with the same values. Loads and saves take `latencyMs` of the clock. */
function shared({
  clock,
  latencyMs = 0,
}: {
  readonly clock: ReturnType<typeof fakeClock>;
  readonly latencyMs?: number;
}) {
  const kept = memoryAuthStore();
  const later = (ms: number) =>
    new Promise<void>((resolve) => {
      if (ms === 0) resolve();
      else clock.schedule(ms, resolve);
    });
  const store = ({ loadMs = latencyMs, saveMs = latencyMs } = {}): McpAuthStore => ({
    load: (key) => later(loadMs).then(() => kept.load(key)),
    save: (key, value) => later(saveMs).then(() => kept.save(key, value)),
    delete: (key) => kept.delete(key),
  });
  return { kept, store };
}

/** Moves the clock until the work is done. Returns how long that took by the clock. */
async function played(clock: ReturnType<typeof fakeClock>, work: Promise<unknown>): Promise<number> {
  const began = clock.now();
  let done = false;
  const settle = () => {
    done = true;
  };
  work.then(settle, settle);
  while (!done) {
    clock.advance(25);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await work;
  return clock.now() - began;
}

it.each([0, 40, 200])('R-06 runs one function at a time, with stores that take %i ms', async (latencyMs) => {
  const clock = fakeClock();
  const { store, kept } = shared({ clock, latencyMs });
  let inside = 0;
  const most: number[] = [];
  const work = () =>
    withLock({ store: store(), key: 'lock', clock }, async () => {
      most.push(++inside);
      await new Promise<void>((resolve) => {
        clock.schedule(1_500, resolve);
      });
      inside--;
    });
  await played(clock, Promise.all([work(), work(), work()]));
  expect(most).toEqual([1, 1, 1]);
  expect(await kept.load('lock')).toBeUndefined();
});

it('R-06 keeps out a process whose write comes after another has entered', async () => {
  const clock = fakeClock();
  const { store } = shared({ clock });
  let inside = 0;
  const most: number[] = [];
  const work = (saveMs: number) =>
    withLock({ store: store({ saveMs }), key: 'lock', clock }, async () => {
      most.push(++inside);
      await new Promise<void>((resolve) => {
        clock.schedule(1_500, resolve);
      });
      inside--;
    });
  await played(clock, Promise.all([work(0), work(400)]));
  expect(most).toEqual([1, 1]);
});

it('R-06 leaves no lock where its owner is done while it renews it', async () => {
  const clock = fakeClock();
  const { store, kept } = shared({ clock });
  const work = withLock({ store: store({ saveMs: 200 }), key: 'lock', clock }, async () => {
    await new Promise<void>((resolve) => {
      clock.schedule(1_050, resolve);
    });
  });
  await played(clock, work);
  clock.advance(1_000);
  await new Promise((resolve) => setImmediate(resolve));
  expect(await kept.load('lock')).toBeUndefined();
});

it('R-06 waits for an owner that lives, and takes the lock of one that has died', async () => {
  const clock = fakeClock();
  const { store, kept } = shared({ clock });
  await kept.save('lock', { owner: 'died', beat: 7 });
  expect(
    await played(
      clock,
      withLock({ store: store(), key: 'lock', clock }, async () => {}),
    ),
  ).toBeGreaterThan(6_000);

  let end = () => {};
  let living: Promise<void> | undefined;
  const entered = new Promise<void>((resolve) => {
    const run = () =>
      new Promise<void>((left) => {
        end = left;
        resolve();
      });
    living = withLock({ store: store(), key: 'lock', clock }, run);
  });
  await played(clock, entered);
  const late = withLock({ store: store(), key: 'lock', clock }, async () => 'entered');
  await played(clock, expect(late).rejects.toMatchObject({ code: 'UNAVAILABLE', retryable: true }));
  end();
  await played(clock, Promise.resolve(living));
});

it('R-06 frees the lock after a failure, and needs no wait in a store of one process', async () => {
  const clock = fakeClock();
  const { store } = shared({ clock });
  const failing = withLock({ store: store(), key: 'lock', clock }, async () => {
    throw new Error('no');
  });
  await played(clock, expect(failing).rejects.toThrow('no'));
  expect(
    await played(
      clock,
      withLock({ store: store(), key: 'lock', clock }, async () => {}),
    ),
  ).toBeLessThan(1_000);
  const own = memoryAuthStore();
  await expect(withLock({ store: own, key: 'lock', clock }, async () => own.load('lock'))).resolves.toBeUndefined();
});

import { describe, expect, it } from '@jest/globals';
import { KeptBytes, limitOf, protocolErrors, type ToKeep } from 'millrace/internals';
import { fakeClock } from 'millrace/testing';

const alice = { group: 'alice', isAnonymous: false };

/** A limit over a store that says how much it keeps, and counts how often it is asked. */
function counting(bytes: () => number | Promise<number>, max = 1_000, history = async () => 0) {
  protocolErrors();
  let counts = 0;
  const clock = fakeClock();
  const count = async () => {
    counts++;
    return bytes();
  };
  const kept = new KeptBytes({ clock, max, count, history });
  const admit = (what: number | ToKeep, owner = alice, write = async () => {}) =>
    kept.keep(owner, typeof what === 'number' ? { bytes: what } : what, write).then(
      () => true,
      (error: unknown) => {
        if (limitOf(error)?.reason === 'KEPT_LIMIT') return false;
        throw error;
      },
    );
  return { kept, admit, clock, counts: () => counts };
}

describe('the count of what is kept', () => {
  it('H-17 is made once, and again with a request after 2 seconds, and is not waited for before 30', async () => {
    let bytes: number | Promise<number> = 0;
    const { admit, clock, counts } = counting(() => bytes);
    expect(await Promise.all([admit(400), admit(400), admit(400)])).toEqual([true, true, false]);
    expect(counts()).toBe(1);
    clock.advance(2_000);
    expect(await admit(900)).toBe(true);
    expect(counts()).toBe(2);
    let counted = (_: number) => {};
    bytes = new Promise((resolve) => {
      counted = resolve;
    });
    clock.advance(2_000);
    expect(await admit(50)).toBe(true);
    expect(counts()).toBe(3);
    clock.advance(30_000);
    const late = admit(40);
    counted(2_000);
    expect(await late).toBe(false);
    expect(counts()).toBe(3);
  });

  it('H-17 costs the same for each request: 10,000 at one moment count once', async () => {
    const { admit, counts } = counting(() => 0, 10_000);
    for (let sent = 0; sent < 10_000; sent++) expect(await admit(1)).toBe(true);
    expect(await admit(1)).toBe(false);
    expect(counts()).toBe(1);
  });

  it('H-17 lets in what fits to the byte, and of many that come together no more than fits', async () => {
    const { admit } = counting(() => 400);
    expect(await admit(601)).toBe(false);
    const all = await Promise.all(Array.from({ length: 50 }, () => admit(100)));
    expect(all.filter(Boolean)).toHaveLength(6);
    expect(await admit(1)).toBe(false);
    expect(await admit(0)).toBe(true);
  });

  it('H-17 has what is on its way count until the stores have it', async () => {
    let bytes = 0;
    const { admit, clock } = counting(() => bytes);
    let written = () => {};
    const writing = admit(
      600,
      alice,
      () =>
        new Promise((resolve) => {
          written = resolve;
        }),
    );
    await new Promise(setImmediate);
    clock.advance(2_000);
    expect(await admit(500)).toBe(false);
    bytes = 600;
    written();
    expect(await writing).toBe(true);
    clock.advance(2_000);
    expect(await admit(400)).toBe(true);
    expect(await admit(1)).toBe(false);
  });

  it('H-17 takes a twentieth of the time at most, also beyond the limit', async () => {
    const { admit, clock, counts } = counting(() => {
      clock.advance(1_000);
      return 2_000;
    });
    expect(await admit(1)).toBe(false);
    clock.advance(19_000);
    expect(await admit(1)).toBe(false);
    expect(counts()).toBe(1);
    clock.advance(1_000);
    expect(await admit(1)).toBe(false);
    expect(counts()).toBe(2);
  });

  it('H-17 is tried again after a store that did not answer', async () => {
    let away = true;
    const { admit } = counting(() => {
      if (away) throw new Error('away');
      return 1;
    });
    await expect(admit(1)).rejects.toThrow('away');
    away = false;
    expect(await admit(1)).toBe(true);
  });

  it('H-17 is one for all who do not say who they are', async () => {
    const { admit } = counting(() => 0);
    expect(await admit(600, { group: 'one', isAnonymous: true })).toBe(true);
    expect(await admit(600, { group: 'other', isAnonymous: true })).toBe(false);
    expect(await admit(600, { group: 'other', isAnonymous: false })).toBe(true);
  });

  it('H-17 says how long to wait for another count', async () => {
    const { kept, clock } = counting(() => 1_000);
    const refused = await kept.keep(alice, { bytes: 1 }, async () => {}).catch((error: unknown) => error);
    expect(limitOf(refused)).toMatchObject({
      message: expect.stringMatching(/maxKeptBytes \(1000 bytes\); have .* deleted/),
      metadata: { limit: 'maxKeptBytes', max: '1000' },
      retryAfterMs: 2_000,
    });
    clock.advance(1_500);
    const again = await kept.keep(alice, { bytes: 1 }, async () => {}).catch((error: unknown) => error);
    expect(limitOf(again)).toMatchObject({ retryAfterMs: 1_000 });
  });

  it('H-17 has a message count as often as the stores hold it, and a turn with what it copies of its conversation', async () => {
    const { admit } = counting(
      () => 0,
      10_000,
      async () => 2_000,
    );
    // The journal has it twice, the conversation once, and the turn has records of its own.
    expect(await admit({ bytes: 3_001, contextId: 'c', turn: 'first' })).toBe(false);
    expect(await admit({ bytes: 500, contextId: 'c', turn: 'first' })).toBe(true);
    // 3 + 1,000 + the 2,000 that there are + the 500 that are on their way.
    expect(await admit({ bytes: 1, contextId: 'c', turn: 'later' })).toBe(true);
    expect(await admit({ bytes: 1, contextId: 'd', turn: 'later' })).toBe(true);
    expect(await admit({ bytes: 1, contextId: 'c', turn: 'later' })).toBe(false);
    expect(await admit({ bytes: 300, contextId: 'c' })).toBe(true);
  });
});

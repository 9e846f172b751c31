import { execFileSync } from 'node:child_process';
import { beforeAll, describe, expect, it } from '@jest/globals';

interface Cost {
  /** Calls of functions of this package, and of RxJS. */
  readonly own: number;
  readonly rxjs: number;
  /** Calls of `Observable.subscribe`. */
  readonly subscriptions: number;
  /** Calls of `Date.now`. */
  readonly clockReads: number;
  /** Constructions of `AbortController`. */
  readonly abortControllers: number;
}

type Unit = 'loop' | 'turn' | 'storedTurn' | 'iteration' | 'storedIteration' | 'call' | 'callOfMany' | 'delta';

/** What `measure.mjs` finds on the built package, in a process of its own. */
function measured<T>(what: 'calls' | 'bytes' | 'live', ...flags: readonly string[]): T {
  const script = new URL('measure.mjs', import.meta.url).pathname;
  return JSON.parse(execFileSync(process.execPath, [...flags, script, what], { encoding: 'utf8' }));
}

// The limits are what was reached, so that a change that costs more is seen. They may be lowered freely.
describe('calls of functions', () => {
  const sum = ({ own, rxjs }: Cost) => own + rxjs;
  let cost: Record<Unit | 'lateIteration' | 'agentIteration' | 'lateAgentIteration' | 'managedIteration', Cost> & {
    readonly behind: { readonly few: Cost; readonly many: Cost };
  };
  beforeAll(() => {
    cost = measured('calls');
  });

  it('W-01 are few in an iteration with one tool', () => {
    expect(cost.iteration.own).toBeLessThanOrEqual(466);
    expect(cost.iteration.rxjs).toBeLessThanOrEqual(73);
  });

  it('W-03 are few in a turn with one model call, and for the loop that runs it', () => {
    expect(cost.turn.own).toBeLessThanOrEqual(521);
    expect(cost.turn.rxjs).toBeLessThanOrEqual(97);
    expect(cost.loop.own + cost.loop.rxjs).toBeLessThanOrEqual(44);
  });

  it('W-04 K-04 are few for one more call of an answer, however many there are', () => {
    expect(cost.call.own).toBeLessThanOrEqual(146);
    expect(cost.call.rxjs).toBeLessThanOrEqual(41);
    expect(cost.callOfMany).toEqual(cost.call);
  });

  it('W-06 are few for a text delta', () => {
    expect(Math.round(cost.delta.own)).toBeLessThanOrEqual(20);
    expect(Math.round(cost.delta.rxjs)).toBeLessThanOrEqual(3);
  });

  it('W-07 are few more with a store in memory', () => {
    expect(cost.storedIteration.own - cost.iteration.own).toBeLessThanOrEqual(87);
    expect(cost.storedIteration.rxjs - cost.iteration.rxjs).toBeLessThanOrEqual(6);
    expect(cost.storedTurn.own - cost.turn.own).toBeLessThanOrEqual(232);
    expect(cost.storedTurn.rxjs - cost.turn.rxjs).toBeLessThanOrEqual(67);
  });

  it('W-08 make few subscriptions', () => {
    expect(cost.iteration.subscriptions).toBeLessThanOrEqual(2);
    expect(cost.call.subscriptions).toBeLessThanOrEqual(1);
    expect(cost.turn.subscriptions).toBeLessThanOrEqual(6);
  });

  it('W-16 read the clock once for each commit, and for the start and the end of a tool', () => {
    expect(cost.iteration.clockReads).toBeLessThanOrEqual(5);
  });

  it('W-09 K-04 are the same in a late iteration', () => {
    expect(cost.lateIteration).toEqual(cost.iteration);
  });

  it('W-17 are few more in an iteration of agent() than of a loop with the same configuration, also in a late one', () => {
    expect(sum(cost.agentIteration) - sum(cost.managedIteration)).toBeLessThanOrEqual(97);
    expect(sum(cost.agentIteration) / sum(cost.managedIteration)).toBeLessThanOrEqual(1.13);
    expect(sum(cost.agentIteration)).toBeLessThanOrEqual(912);
    expect(sum(cost.lateAgentIteration)).toBeLessThanOrEqual(sum(cost.agentIteration) + 1);
  });

  it('C-05 are as few in a plain turn behind 1,000 messages as behind 10', () => {
    const { few, many } = cost.behind;
    expect(few.own).toBeGreaterThan(1_000);
    expect(many.own - few.own).toBeLessThanOrEqual(20);
    expect(many.rxjs - few.rxjs).toBeLessThanOrEqual(2);
  });

  it('make no AbortController, and few calls more, for an iteration with retry and compaction of which nothing is due', () => {
    expect(sum(cost.managedIteration) - sum(cost.iteration)).toBeLessThanOrEqual(278);
    expect(cost.managedIteration.abortControllers).toBe(0);
    expect(cost.agentIteration.abortControllers).toBe(0);
  });
});

describe('bytes allocated', () => {
  let bytes: Record<'turn' | 'iteration' | 'lateIteration' | 'call' | 'callOfMany', { readonly bytes: number }>;
  beforeAll(() => {
    const young = ['--max-semi-space-size=256', '--min-semi-space-size=256'];
    bytes = measured('bytes', '--expose-gc', '--predictable', ...young);
  });

  it('W-02 are few for an iteration', () => {
    expect(bytes.iteration.bytes).toBeLessThanOrEqual(27_000);
  });

  it('W-10 are one reference for each message of a long history more, for the list that a call gets', () => {
    expect((bytes.lateIteration.bytes - bytes.iteration.bytes) / 2_100).toBeLessThanOrEqual(8.8);
  });

  it('W-04 are few for one more call, however many there are', () => {
    expect(bytes.call.bytes).toBeLessThanOrEqual(7_500);
    expect(bytes.callOfMany.bytes).toBeLessThanOrEqual(1.2 * bytes.call.bytes);
  });

  it('W-03 are few for a turn', () => {
    expect(bytes.turn.bytes).toBeLessThanOrEqual(36_700);
  });
});

describe('bytes held', () => {
  let live: Record<'turn' | 'storedTurn' | 'text', number>;
  beforeAll(() => {
    live = measured('live', '--expose-gc', '--predictable');
  });

  it('W-05 are few for a turn that waits for its model', () => {
    expect(live.turn).toBeLessThanOrEqual(10_550);
    expect(live.storedTurn).toBeLessThanOrEqual(14_200);
  });

  it('W-13 are at most 2.5 for each byte of an open answer', () => {
    expect(live.text).toBeLessThanOrEqual(2.5);
  });
});

import { describe, expect, it } from '@jest/globals';
import { question } from './dead-turn.ts';
import { turnBench } from './turn-bench.ts';
import { outlineOf, watch } from './watch-events.ts';

const bench = turnBench();

describe('live$ of a turn', () => {
  it('gives what readers get, before they do, and ends before the result is there', async () => {
    const turn = bench.loop([{ text: 'Two.' }]).startTurn(question);
    const order: string[] = [];
    const onlooker = watch(turn.live$, ({ kind }) => order.push(`looks on: ${kind}`));
    const reader = watch(turn, ({ kind }) => order.push(`reads: ${kind}`));
    void onlooker.ended.then(() => order.push('live ended'));
    await turn.result().then(() => order.push('result'));
    expect(outlineOf(onlooker.events)).toEqual(outlineOf(reader.events));
    expect(order.slice(0, 2)).toEqual(['looks on: task', 'reads: task']);
    expect(order.indexOf('live ended')).toBeLessThan(order.indexOf('result'));
    expect(turn.state?.finalMessage).toBe('Two.');
  });

  it('neither starts a turn nor keeps it alive', async () => {
    const turn = bench.loop([{ never: true }]).startTurn(question);
    const onlooker = watch(turn.live$);
    expect(turn.state).toBeUndefined();
    const reader = watch(turn);
    await reader.until('internal:llm-call');
    reader.leave();
    await turn.settled;
    expect(onlooker.events.at(-1)).toMatchObject({ kind: 'status-update', status: { state: 'canceled' }, final: true });
    expect(onlooker.end).toBe('complete');
  });

  it('is left without an effect on the turn, and is empty behind its end', async () => {
    const turn = bench.loop([{ text: 'Two.' }]).startTurn(question);
    const onlooker = watch(turn.live$);
    onlooker.leave();
    await expect(turn.result()).resolves.toMatchObject({ text: 'Two.' });
    expect(onlooker.events).toEqual([]);
    const late = watch(turn.live$);
    expect([late.events, late.end]).toEqual([[], 'complete']);
  });
});

import { describe, expect, it } from '@jest/globals';
import { LocalToolProvider, tool } from 'millrace';
import type { BatchedCall } from 'millrace/types';
import { question } from '../core/dead-turn.ts';
import { turnBench } from '../core/turn-bench.ts';
import { watch } from '../core/watch-events.ts';
import { thrownBy } from './thrown.ts';

const bench = turnBench();
type City = { readonly city: string };
const parameters = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
} as const;

function weather(answer: (calls: readonly BatchedCall<City>[]) => Readonly<Record<string, unknown>>) {
  const batches: string[][] = [];
  const one = tool({
    name: 'weather',
    description: 'Tells the weather.',
    parameters,
    async executeBatch(calls) {
      batches.push(calls.map(({ callId, arguments: { city } }) => `${callId} ${city}`));
      return answer(calls);
    },
  });
  return { batches, toolProviders: [new LocalToolProvider([one])] };
}

const cities = (...names: readonly string[]) => ({
  toolCalls: names.map((city) => ({ name: 'weather', arguments: { city } })),
});
const byCity = (calls: readonly BatchedCall<City>[]) =>
  Object.fromEntries(calls.map(({ callId, arguments: { city } }) => [callId, `rain in ${city}`]).reverse());

describe('executeBatch', () => {
  it('S1-98 runs the calls of one response in one invocation, each with its own result', async () => {
    const { batches, toolProviders } = weather(byCity);
    const loop = bench.loop([cities('Rome', 'Oslo', 'Lima'), cities('Bonn'), { text: 'Rain.' }], { toolProviders });
    const { messages } = await loop.startTurn(question).result();
    expect(batches).toEqual([['1:0 Rome', '1:1 Oslo', '1:2 Lima'], ['2:0 Bonn']]);
    expect(messages.flatMap((each) => (each.role === 'tool' ? [each.content] : []))).toEqual([
      'rain in Rome',
      'rain in Oslo',
      'rain in Lima',
      'rain in Bonn',
    ]);
  });

  it('keeps the calls of different turns apart', async () => {
    const { batches, toolProviders } = weather(byCity);
    const loop = bench.loop([cities('Rome'), cities('Oslo'), { text: 'Rain.' }, { text: 'Rain.' }], { toolProviders });
    await Promise.all([loop.startTurn(question).result(), loop.startTurn(question).result()]);
    expect(batches).toEqual([['1:0 Rome'], ['1:0 Oslo']]);
  });

  it('fails the calls that it gives an error for, or nothing', async () => {
    const { toolProviders } = weather(() => ({ '1:0': new RangeError('no such city'), '1:2': 'rain' }));
    const loop = bench.loop([cities('Atlantis', 'Oslo', 'Lima'), { text: 'Rain.' }], { toolProviders });
    const { messages } = await loop.startTurn(question).result();
    expect(messages.slice(1, 4)).toMatchObject([
      { content: 'Tool error: RangeError: no such city' },
      { content: 'Tool error: Error: executeBatch gave no result for the call "1:1"' },
      { content: 'rain' },
    ]);
  });

  it('does not run calls that are cancelled before it starts', async () => {
    const { batches, toolProviders } = weather(byCity);
    const turn = bench.loop([cities('Rome', 'Oslo')], { toolProviders }).startTurn(question);
    const watcher = watch(turn, ({ kind }) => {
      if (kind === 'internal:tool-start') void turn.cancel('enough');
    });
    await watcher.ended;
    await turn.settled;
    expect(batches).toEqual([]);
  });

  it('goes in place of execute, not with it', async () => {
    const given = { name: 't', description: 'd', parameters, execute: () => '', executeBatch: () => ({}) };
    const error = await thrownBy(() => Reflect.apply(tool, undefined, [given]));
    expect(error.message).toContain('give either execute or executeBatch');
  });
});

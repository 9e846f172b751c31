import { describe, expect, it } from '@jest/globals';
import {
  AgentLoopError,
  agentTools,
  type Extension,
  inParallel,
  retry,
  structuredOutput,
  type Turn,
  TurnError,
} from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate, type ScriptedLLMStep } from 'millrace/testing';
import type { DiscardedText, TextOptions } from 'millrace/types';
import { lastValueFrom, toArray } from 'rxjs';
import { z } from 'zod';
import { answer, handing, teamBench } from '../agent/team-bench.ts';
import { same } from '../same-type.ts';
import { question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';

const { on, player, made } = teamBench();
const { bench } = on;
const count = plainTools({ count: () => 2 });

async function read<T>(source: AsyncIterable<T>): Promise<readonly T[]> {
  const pieces: T[] = [];
  for await (const piece of source) pieces.push(piece);
  return pieces;
}

const gone = new AgentLoopError('PROVIDER_STREAM_CLOSED', 'gone', { retryable: true });

/** A turn whose first model call breaks off after its text. */
function brokenOff(then: readonly ScriptedLLMStep[] = [{ text: ['Hi', ' there.'] }]): Turn {
  const steps = [{ text: ['Hel', 'lo f'], error: gone }, ...then];
  const provider = retry({ maxRetries: 1, clock: bench.clock })(bench.model(steps));
  return new AgentLoop(bench.config(provider, { store: false })).startTurn(question);
}

async function afterPause<T>(shown: Promise<T>): Promise<T> {
  await bench.clock.whenPending();
  bench.clock.advanceToNext();
  return shown;
}

describe('the text of a turn', () => {
  it('U-01 comes piece by piece, and is all the text of the result', async () => {
    const steps = [{ text: ['I will ', 'count.'], toolCalls: [{ name: 'count' }] }, { text: ['Tw', 'o.'] }];
    const turn = bench.loop(steps, { toolProviders: [count] }).startTurn(question);
    const pieces = await lastValueFrom(turn.text().pipe(toArray()));
    expect(pieces).toEqual(['I will ', 'count.', '\nTw', 'o.']);
    expect(pieces.join('')).toBe((await turn.result()).allText);
    expect(await read(turn.text())).toEqual(['I will count.\nTwo.']);
  });

  it('U-01 streams to for await: the first piece is there while the model still writes', async () => {
    const held = gate();
    const turn = bench.loop([{ text: ['One, ', held.pass(), 'two.'] }]).startTurn(question);
    const pieces = turn.text()[Symbol.asyncIterator]();
    expect(await pieces.next()).toEqual({ done: false, value: 'One, ' });
    held.open();
    expect(await pieces.next()).toEqual({ done: false, value: 'two.' });
    expect(await pieces.next()).toEqual({ done: true, value: undefined });
  });

  it('U-01 holds for a slow reader one string, not every piece', async () => {
    const turn = bench.loop([{ text: Array.from({ length: 500 }, () => 'x') }]).startTurn(question);
    const pieces = turn.text()[Symbol.asyncIterator]();
    const first = await pieces.next();
    await turn.result();
    const rest = await pieces.next();
    expect([first.value, String(rest.value).length, (await pieces.next()).done]).toEqual(['x', 499, true]);
  });

  it('U-01 cancels the turn when the last reader leaves the loop, and not before', async () => {
    const turn = bench.loop([{ text: ['One, ', 'two.'], never: true }]).startTurn(question);
    const other = turn.subscribe();
    for await (const text of turn.text()) if (text === 'One, ') break;
    expect(turn.state?.isComplete).toBe(false);
    other.unsubscribe();
    await turn.settled;
    expect(turn.state?.outcome).toMatchObject({ state: 'canceled' });

    const alone = bench.loop([{ text: 'One, ', never: true }]).startTurn(question);
    for await (const text of alone.text()) if (text === 'One, ') break;
    await alone.settled;
    expect(alone.state?.outcome).toMatchObject({ state: 'canceled' });
  });

  it('U-01 tells of a discarded attempt in its place, and starts anew on a line of its own', async () => {
    const told: (string | DiscardedText)[] = [];
    const options: TextOptions = { onDiscard: (discarded) => told.push(discarded) };
    const shown = (async () => {
      for await (const text of brokenOff().text(options)) told.push(text);
    })();
    await afterPause(shown);
    expect(told.slice(0, 3)).toEqual(['Hel', 'lo f', { text: 'Hello f', reason: 'PROVIDER_STREAM_CLOSED' }]);
    expect(told.slice(3).join('')).toBe('\nHi there.');
    const plain = brokenOff();
    expect(await afterPause(lastValueFrom(plain.text().pipe(toArray())))).toEqual(['Hel', 'lo f', '\nHi', ' there.']);
    expect((await plain.result()).allText).toBe('Hi there.');
  });

  it('U-01 tells of text that an extension replaces', async () => {
    const redacts: Extension = {
      name: 'redacts',
      afterLLMCall: (response) => ({ response: { ...response, message: { role: 'assistant', content: 'My *.' } } }),
    };
    const discarded: DiscardedText[] = [];
    const turn = bench.loop([{ text: 'My key.' }], { extensions: [redacts] }).startTurn(question);
    const pieces = await lastValueFrom(turn.text({ onDiscard: (each) => discarded.push(each) }).pipe(toArray()));
    expect([pieces, discarded]).toEqual([['My key.', '\nMy *.'], [{ text: 'My key.', reason: 'replaced' }]]);
  });

  it('U-01 errors where the callback throws, and leaves the turn', async () => {
    const fails: TextOptions = {
      onDiscard: () => {
        throw new Error('no screen');
      },
    };
    const [looped, subscribed] = [brokenOff([]), brokenOff([])];
    await expect(read(looped.text(fails))).rejects.toThrow('no screen');
    await expect(lastValueFrom(subscribed.text(fails))).rejects.toThrow('no screen');
    for (const turn of [looped, subscribed]) {
      await turn.settled;
      expect(turn.state?.outcome?.state).toBe('canceled');
    }
  });

  it('U-01 ends as result() does: with its error where the turn fails, complete where it is suspended', async () => {
    const failing = bench.loop([{ text: 'Hm', error: new Error('down') }]).startTurn(question);
    const pieces: string[] = [];
    const reading = (async () => {
      for await (const text of failing.text()) pieces.push(text);
    })();
    const refusal = await reading.catch((error: unknown) => error);
    expect(pieces).toEqual(['Hm']);
    expect(refusal).toBeInstanceOf(TurnError);
    await expect(failing.result()).rejects.toMatchObject({ code: 'PROVIDER_FAILED' });

    const held = gate();
    const paused = bench
      .loop([() => ({ gate: held.pass(), text: 'Wait.', toolCalls: [{ name: 'count' }] })], { toolProviders: [count] })
      .startTurn(question);
    const text = read(paused.text());
    paused.pause();
    held.open();
    expect(await text).toEqual(['Wait.']);
    expect((await paused.result()).status).toBe('input-required');
  });

  it('U-01 is that of the agents that have the turn, without that of sub-agents and of members in parallel', async () => {
    const bo = on.agent([{ text: 'Deep.' }], { id: 'bo' });
    const calls = [{ name: 'bo', arguments: { message: 'Go on.' } }];
    const ada = on.agent([{ text: 'Wait.', toolCalls: calls }, { text: 'So.' }], { toolProviders: [agentTools([bo])] });
    expect((await read(ada.startTurn('Ask.').text())).join('')).toBe('Wait.\nSo.');

    const two = made([player('a', [handing('b', 'Your turn.')]), player('b', answer('B here.'))], { handOff: true });
    const handed = two.startTurn('Help.');
    expect((await read(handed.text())).join('')).toBe('B here.');

    const both = made([player('c', answer('C.')), player('d', answer('D.'))], { routing: inParallel(['c', 'd']) });
    const parallel = both.startTurn('Both?');
    const text = (await read(parallel.text())).join('');
    expect(text).toBe((await parallel.result()).allText);
    expect(text.split('C.')).toHaveLength(2);
  });
});

describe('the partial values of a turn', () => {
  const output = structuredOutput({ schema: z.object({ city: z.string() }) });
  const writing: ScriptedLLMStep = { toolCalls: [{ name: '__finish__', arguments: ['{"ci', 'ty":"Os', 'lo"}'] }] };

  it('U-01 grow as the model writes, typed, and end with the value', async () => {
    const ada = on
      .agent([])
      .with({ provider: on.bench.model([writing]), outputSchema: z.object({ city: z.string() }) });
    const turn = ada.startTurn('Where?');
    const partials = await lastValueFrom(turn.partials().pipe(toArray()));
    expect(same<(typeof partials)[number], { readonly city?: string }>(true)).toBe(true);
    expect(partials).toEqual([{}, { city: 'Os' }, { city: 'Oslo' }]);
    expect((await turn.result()).value).toEqual({ city: 'Oslo' });
  });

  it('U-01 give a slow loop the latest snapshot', async () => {
    const turn = bench.loop([writing], { extensions: [output] }).startTurn(question);
    const partials = turn.partials()[Symbol.asyncIterator]();
    const first = await partials.next();
    await turn.result();
    expect([first.value, (await partials.next()).value, (await partials.next()).done]).toEqual([
      {},
      { city: 'Oslo' },
      true,
    ]);
  });

  it('U-01 are those of the agent that has the turn', async () => {
    const b = player('b', [writing], { extensions: [output] });
    const turn = made([player('a', [handing('b', 'Where?')]), b], { handOff: true }).startTurn('Where?');
    expect(await lastValueFrom(turn.partials().pipe(toArray()))).toEqual([{}, { city: 'Os' }, { city: 'Oslo' }]);
  });

  it('U-01 are refused where the agent has no structured output; the turn does not start', async () => {
    const turn = bench.loop([]).startTurn(question);
    await expect(read(turn.partials())).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
    expect(turn.state).toBeUndefined();
  });
});

import { describe, expect, it } from '@jest/globals';
import { AgentLoopError, retry, structuredOutput } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { ScriptedLLMStep } from 'millrace/testing';
import { lastValueFrom, toArray } from 'rxjs';
import { z } from 'zod';
import { charactersParsed } from '../../characters-passed.ts';
import { question } from '../../core/dead-turn.ts';
import { turnBench } from '../../core/turn-bench.ts';

const bench = turnBench();
const output = structuredOutput({ schema: z.object({ city: z.string(), tags: z.array(z.string()) }) });
const fragments = ['{"ci', 'ty":"Os', 'lo","ta', 'gs":["co', 'ld"', ',"dark"]}'];
const growing = [
  {},
  { city: 'Os' },
  { city: 'Oslo' },
  { city: 'Oslo', tags: ['co'] },
  { city: 'Oslo', tags: ['cold'] },
  { city: 'Oslo', tags: ['cold', 'dark'] },
];
const writing = (args: readonly string[]): ScriptedLLMStep => ({
  toolCalls: [{ name: '__finish__', arguments: args }],
});

function snapshots(turn: ReturnType<AgentLoop['startTurn']>) {
  return lastValueFrom(output.partials(turn).pipe(toArray()));
}

describe('the partials of an output', () => {
  it('S3-33 grow as the model writes, and end with the value', async () => {
    const turn = bench.loop([writing(fragments)], { extensions: [output] }).startTurn(question);
    expect(await snapshots(turn)).toEqual(growing);
    expect((await turn.result()).value).toEqual(growing.at(-1));
  });

  it('S3-33 start anew behind an output that did not fit', async () => {
    const steps = [writing(['{"city"', ':4}']), writing(fragments)];
    const turn = bench.loop(steps, { extensions: [output] }).startTurn(question);
    expect(await snapshots(turn)).toEqual([{}, { city: 4 }, ...growing]);
  });

  it('S3-33 start anew behind an attempt that broke off', async () => {
    const error = new AgentLoopError('PROVIDER_STREAM_CLOSED', 'gone', { retryable: true });
    const broken = { toolCalls: [{ name: '__finish__', arguments: ['{"city":"Os'] }], error };
    const model = bench.model([broken, writing(fragments)]);
    const config = bench.config(retry({ maxRetries: 1, clock: bench.clock })(model), {
      extensions: [output],
      store: false,
    });
    const shown = snapshots(new AgentLoop(config).startTurn(question));
    await bench.clock.whenPending();
    bench.clock.advanceToNext();
    expect(await shown).toEqual([{ city: 'Os' }, ...growing]);
  });

  it.each(['the finish tool', 'the text'])('of a long value in %s are parsed in linear time', async (way) => {
    const words = Array.from({ length: 4_000 }, () => 'word ');
    const pieces = ['{"city":"', ...words, '","tags":[]}'];
    const inText = way === 'the text';
    const long = structuredOutput({
      schema: z.object({ city: z.string(), tags: z.array(z.string()) }),
      ...(inText && { mode: 'native' }),
    });
    const model = bench.model([inText ? { text: pieces } : writing(pieces)], {
      capabilities: { responseFormat: true },
    });
    const turn = new AgentLoop(bench.config(model, { extensions: [long], store: false })).startTurn(question);
    let values: readonly { readonly city?: string }[] = [];
    const parsed = await charactersParsed(async () => {
      values = await lastValueFrom(long.partials(turn).pipe(toArray()));
    });
    expect(values.at(-1)).toEqual({ city: words.join(''), tags: [] });
    expect(values.length).toBeGreaterThan(800);
    const [shortValues, text] = [4_096, pieces.join('')];
    expect(parsed).toBeLessThan(shortValues ** 2 / 8 + 80 * text.length);
  });

  it('are the value alone for who comes late', async () => {
    const turn = bench.loop([writing(fragments)], { extensions: [output] }).startTurn(question);
    await turn.result();
    expect(await snapshots(turn)).toEqual(growing.slice(-1));
  });
});

describe('the partials of an answer in text', () => {
  it('M-14 pass over what stands before the output, and leave out null for an absent member', async () => {
    const schema = z.object({ city: z.string(), note: z.string().optional() });
    const inText = structuredOutput({ schema, mode: 'native' });
    const text = ['<think>{"city":"Ro', 'me"}</think>``', '`json\n{', '"city":"Os', 'lo","note":null', '}\n```'];
    const model = bench.model([{ text }], { capabilities: { responseFormat: true } });
    const turn = new AgentLoop(bench.config(model, { extensions: [inText], store: false })).startTurn(question);
    const shown = await lastValueFrom(inText.partials(turn).pipe(toArray()));
    expect(shown).toEqual([{ city: 'Os' }, { city: 'Oslo' }]);
  });
});

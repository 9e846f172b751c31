import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { foldChunks, replayText } from './piecewise.ts';
import { callDelta, delta, done, wireCall } from './raw-server.ts';

const endsWithCalls = delta({}, 'tool_calls') + done;

async function callsOf(stream: string): Promise<unknown> {
  const { chunks, response } = await replayText(stream + endsWithCalls);
  const folded = foldChunks(chunks).calls.map(({ id, name, arguments: args }) => wireCall(id, name, args));
  expect(folded).toEqual(response.toolCalls);
  return response.toolCalls;
}

describe('tool calls in a stream', () => {
  it('S4-17 come as fragments by their position, whatever the first index of the wire', async () => {
    const { chunks } = await replayText(
      callDelta(1, { id: 'a', name: 'f', args: '' }) +
        callDelta(1, { args: '{"x"' }) +
        callDelta(1, { args: ':1}' }) +
        endsWithCalls,
    );
    expect(chunks).toEqual([
      { type: 'tool-call', index: 0, id: 'a', name: 'f' },
      { type: 'tool-call', index: 0, arguments: '{"x"' },
      { type: 'tool-call', index: 0, arguments: ':1}' },
    ]);
  });

  it('with arguments in one piece, and one character at a time', async () => {
    const args = '{"city":"Grünwald 🌲","days":[1,2]}';
    const whole = callDelta(0, { id: 'a', name: 'f', args });
    const letters =
      callDelta(0, { id: 'a', name: 'f', args: '' }) + [...args].map((args) => callDelta(0, { args })).join('');
    expect(await callsOf(whole)).toEqual([wireCall('a', 'f', args)]);
    expect(await callsOf(letters)).toEqual([wireCall('a', 'f', args)]);
  });

  it('with parallel calls interleaved, indices that leave gaps, and several in one chunk', async () => {
    const stream = [
      callDelta(5, { id: 'a', name: 'f', args: '{"n":' }),
      callDelta(2, { id: 'b', name: 'g', args: '{"m":' }),
      delta({
        tool_calls: [
          { index: 5, function: { arguments: '1}' } },
          { index: 2, function: { arguments: '2}' } },
        ],
      }),
    ];
    expect(await callsOf(stream.join(''))).toEqual([wireCall('a', 'f', '{"n":1}'), wireCall('b', 'g', '{"m":2}')]);
  });

  it('with the id repeated, and empty ids and names in later fragments', async () => {
    const stream = [
      callDelta(0, { id: 'a', name: 'f', args: '{"n"' }),
      callDelta(0, { id: 'a', name: '', args: ':' }),
      callDelta(0, { id: '', name: '', args: '1' }),
      callDelta(0, { id: 'a', name: 'f', args: '}' }),
    ];
    expect(await callsOf(stream.join(''))).toEqual([wireCall('a', 'f', '{"n":1}')]);
  });

  it('with another id in each fragment, which names no new call', async () => {
    const stream = [
      callDelta(0, { id: 'a', name: 'f' }),
      callDelta(0, { id: 'b', args: '{' }),
      callDelta(0, { id: 'c', args: '}' }),
    ];
    expect(await callsOf(stream.join(''))).toEqual([wireCall('a', 'f', '{}')]);
  });

  it('without an index: whole calls, fragments without an id, and interleaved ones known by their id', async () => {
    const whole = [
      callDelta(undefined, { id: 'a', name: 'f', args: '{}' }),
      callDelta(undefined, { id: 'b', name: 'f', args: '{}' }),
    ];
    expect(await callsOf(whole.join(''))).toEqual([wireCall('a', 'f', '{}'), wireCall('b', 'f', '{}')]);
    const pieces = [callDelta(undefined, { id: 'a', name: 'f', args: '{' }), callDelta(undefined, { args: '}' })];
    expect(await callsOf(pieces.join(''))).toEqual([wireCall('a', 'f', '{}')]);
    const interleaved = [
      callDelta(undefined, { id: 'a', name: 'f', args: '{"n":' }),
      callDelta(undefined, { id: 'b', name: 'g', args: '{"m":' }),
      callDelta(undefined, { id: 'a', args: '1}' }),
      callDelta(undefined, { id: 'b', args: '2}' }),
    ];
    expect(await callsOf(interleaved.join(''))).toEqual([wireCall('a', 'f', '{"n":1}'), wireCall('b', 'g', '{"m":2}')]);
  });

  it('with index 0 for all: told apart by their ids, or without ids by complete arguments', async () => {
    const ids = [callDelta(0, { id: 'a', name: 'f', args: '{}' }), callDelta(0, { id: 'b', name: 'g', args: '{}' })];
    expect(await callsOf(ids.join(''))).toEqual([wireCall('a', 'f', '{}'), wireCall('b', 'g', '{}')]);
    const none = [
      callDelta(0, { id: '', name: 'f', args: '{}' }),
      callDelta(0, { id: '', name: 'f', args: '{"n":1}' }),
    ];
    expect(await callsOf(none.join(''))).toEqual([wireCall('', 'f', '{}'), wireCall('', 'f', '{"n":1}')]);
  });

  it('with arguments as an object, no arguments at all, and the old function_call', async () => {
    const object = delta({ tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: { n: 1 } } }] });
    expect(await callsOf(object)).toEqual([wireCall('a', 'f', '{"n":1}')]);
    expect(await callsOf(callDelta(0, { id: 'a', name: 'f' }))).toEqual([wireCall('a', 'f', '')]);
    const old =
      delta({ function_call: { name: 'f', arguments: '{"n"' } }) + delta({ function_call: { arguments: ':1}' } });
    expect(await callsOf(old)).toEqual([wireCall('', 'f', '{"n":1}')]);
  });

  it('put together the calls that were taken apart, however their fragments are cut and mixed', async () => {
    const args = fc
      .dictionary(fc.string(), fc.oneof(fc.string(), fc.integer(), fc.constant(null)))
      .map((value) => JSON.stringify(value));
    const aCall = fc.record({
      name: fc.stringMatching(/^[a-z_]{1,12}$/),
      args,
      cuts: fc.array(fc.nat(40), { maxLength: 6 }),
    });
    const calls = fc
      .uniqueArray(fc.nat(30), { minLength: 1, maxLength: 4 })
      .chain((indices) => fc.tuple(...indices.map((index) => aCall.map((one) => ({ index, ...one })))));
    await fc.assert(
      fc.asyncProperty(calls, fc.infiniteStream(fc.nat(1_000)), async (made, random) => {
        const queues = made.map(({ index, name, args, cuts }) => [
          callDelta(index, { id: `id-${index}`, name, args: '' }),
          ...textCuts(args, cuts).map((piece) => callDelta(index, { args: piece })),
        ]);
        const stream = queues.map((queue) => queue.shift()).join('') + mix(queues, () => Number(random.next().value));
        expect(await callsOf(stream)).toEqual(made.map(({ index, name, args }) => wireCall(`id-${index}`, name, args)));
      }),
      { numRuns: 60 },
    );
  });
});

function textCuts(text: string, places: readonly number[]): readonly string[] {
  const bounds = [0, ...[...places].map((place) => Math.min(place, text.length)).sort((a, b) => a - b), text.length];
  return bounds.slice(1).map((end, index) => text.slice(bounds[index], end));
}

function mix(queues: readonly string[][], random: () => number): string {
  let mixed = '';
  for (
    let open = queues.filter(({ length }) => length > 0);
    open.length > 0;
    open = queues.filter(({ length }) => length > 0)
  ) {
    mixed += open[random() % open.length]?.shift() ?? '';
  }
  return mixed;
}

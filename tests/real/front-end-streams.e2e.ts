import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import { agent, InMemoryStateStore } from 'millrace';
import { gate, scriptedLLM } from 'millrace/testing';
import { toUIMessageStream } from 'millrace/ui';

const deltas = 300_000;

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

function heldBytes(): number {
  collect();
  return process.memoryUsage().heapUsed;
}

async function rest(reader: ReadableStreamDefaultReader<Uint8Array>) {
  const decoder = new TextDecoder();
  let frames = 0;
  let text = '';
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    const read = decoder.decode(next.value);
    frames += read.split('\n\n').length - 1;
    for (const [, delta = ''] of read.matchAll(/"type":"text-delta".*?"delta":"([^"]*)"/g)) text += delta;
  }
  return { frames, text };
}

describe('a reader that stalls', () => {
  it('V-10 holds less than 10 MB of 300,000 deltas, gets them merged, and does not slow another reader', async () => {
    const held = gate();
    const text = ['a', ...Array.from({ length: deltas }, () => 'x')];
    const step = () => ({ text: [text[0] ?? '', held.pass(), ...text.slice(1)] });
    const bo = agent({ id: 'bo', provider: scriptedLLM([step]), taskStateStore: new InMemoryStateStore() });
    const turn = bo.startTurn('Go.', { detached: true });
    const stalled = toUIMessageStream(turn).getReader();
    const other = toUIMessageStream(turn).getReader();
    for (let index = 0; index < 3; index++) await Promise.all([stalled.read(), other.read()]);
    await held.reached;
    const before = heldBytes();
    held.open();
    const read = await rest(other);
    await turn.settled;
    const bytes = heldBytes() - before;
    expect(read.text.endsWith('x')).toBe(true);
    expect(bytes).toBeLessThan(10 * 2 ** 20);
    const late = await rest(stalled);
    expect(late.frames).toBeLessThan(50);
    expect(late.text).toHaveLength(deltas);
  });
});

import { PassThrough } from 'node:stream';
import { describe, expect, it } from '@jest/globals';
import { pipedLines, typedLines } from '../../src/cli/line-source.ts';

async function collect(lines: AsyncIterable<string>): Promise<string[]> {
  const all: string[] = [];
  for await (const line of lines) all.push(line);
  return all;
}

const never = () => new AbortController().signal;

describe('pipedLines', () => {
  it('gives every line, also the last one without a line feed, also while nobody reads', async () => {
    const input = new PassThrough();
    input.end('one\r\ntwo\n\nthree');
    const lines = pipedLines({ input, signal: never });
    const first = await lines.next();
    await new Promise(setImmediate);
    expect([first.value, ...(await collect(lines))]).toEqual(['one', 'two', '', 'three']);
  });

  it('ends when it is told to, while it waits', async () => {
    const input = new PassThrough();
    const controller = new AbortController();
    const lines = collect(pipedLines({ input, signal: () => controller.signal }));
    controller.abort();
    expect(await lines).toEqual([]);
  });
});

describe('typedLines', () => {
  const typed = (input: PassThrough, signal = never) =>
    typedLines({ input, output: new PassThrough().resume(), prompt: '> ', signal });

  it('gives what is typed, also ahead of the prompt, until Ctrl-D', async () => {
    const input = new PassThrough();
    const lines = typed(input);
    const first = lines.next();
    input.write('one\n');
    expect(await first).toEqual({ value: 'one', done: false });
    input.write('two\n');
    expect((await lines.next()).value).toBe('two');
    const last = lines.next();
    input.write('\u0004');
    expect((await last).done).toBe(true);
  });

  it('takes a paste as one entry and keeps its unfinished line, but never hides a command in it', async () => {
    const input = new PassThrough();
    const lines = typed(input);
    const paste = lines.next();
    input.write('first\nsecond\nthi');
    expect((await paste).value).toBe('first\nsecond');
    const rest = lines.next();
    input.write('rd\n');
    expect((await rest).value).toBe('third');
    const command = lines.next();
    input.write('what?\n/quit\n');
    expect([(await command).value, (await lines.next()).value]).toEqual(['what?', '/quit']);
  });

  it('ends after the lines that came with a Ctrl-D', async () => {
    const input = new PassThrough();
    const lines = collect(typed(input));
    input.write('last\n');
    input.write('\u0004');
    expect(await lines).toEqual(['last']);
  });

  it('ends with Ctrl-C, and when it is told to', async () => {
    const input = new PassThrough();
    const byKey = collect(typed(input));
    input.write('\u0003');
    expect(await byKey).toEqual([]);
    const controller = new AbortController();
    const told = collect(typed(new PassThrough(), () => controller.signal));
    controller.abort();
    expect(await told).toEqual([]);
  });
});

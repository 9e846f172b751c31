import { on } from 'node:events';
import { PassThrough } from 'node:stream';
import { describe, expect, it } from '@jest/globals';
import { type Entry, type LineSource, PipedLines, TypedLines } from 'millrace/internals';

async function collect(lines: LineSource): Promise<Entry[]> {
  const all: Entry[] = [];
  do all.push(await lines.next());
  while (all.at(-1)?.kind === 'text');
  return all;
}

const never = () => new AbortController().signal;
const said = (text: string): Entry => ({ kind: 'text', text });
const end: Entry = { kind: 'end' };

describe('PipedLines', () => {
  it('gives every line, also the last one without a line feed, also while nobody reads', async () => {
    const input = new PassThrough();
    input.end('one\r\ntwo\n\nthree');
    const lines = new PipedLines({ input, signal: never });
    const first = await lines.next();
    await new Promise(setImmediate);
    expect([first, await lines.answer(), ...(await collect(lines))]).toEqual([
      said('one'),
      said('two'),
      said(''),
      said('three'),
      end,
    ]);
  });

  it('ends when it is told to, while it waits', async () => {
    const input = new PassThrough();
    const controller = new AbortController();
    const lines = collect(new PipedLines({ input, signal: () => controller.signal }));
    controller.abort();
    expect(await lines).toEqual([end]);
  });
});

describe('TypedLines', () => {
  const typed = (input: PassThrough, signal = never, output = new PassThrough().resume()) =>
    new TypedLines({ input, output, prompt: '> ', signal });

  /** Resolves once the prompt is shown. */
  async function prompts(output: PassThrough, prompt: string): Promise<void> {
    for await (const chunk of on(output, 'data')) if (String(chunk).includes(prompt)) return;
  }

  it('gives what is typed, also ahead of the prompt, until Ctrl-D', async () => {
    const input = new PassThrough();
    const lines = typed(input);
    const first = lines.next();
    input.write('one\n');
    expect(await first).toEqual(said('one'));
    input.write('two\n');
    expect(await lines.next()).toEqual(said('two'));
    const last = lines.next();
    input.write('\u0004');
    expect(await last).toEqual(end);
  });

  it('takes a paste as one entry and keeps its unfinished line, but never hides a command in it', async () => {
    const input = new PassThrough();
    const lines = typed(input);
    const paste = lines.next();
    input.write('first\nsecond\nthi');
    expect(await paste).toEqual(said('first\nsecond'));
    const rest = lines.next();
    input.write('rd\n');
    expect(await rest).toEqual(said('third'));
    const command = lines.next();
    input.write('what?\n/quit\n');
    expect([await command, await lines.next()]).toEqual([said('what?'), said('/quit')]);
  });

  it('ends after the lines that came with a Ctrl-D', async () => {
    const input = new PassThrough();
    const lines = collect(typed(input));
    input.write('last\n');
    input.write('\u0004');
    expect(await lines).toEqual([said('last'), end]);
  });

  it('ends with Ctrl-C, and when it is told to', async () => {
    const input = new PassThrough();
    const byKey = collect(typed(input));
    input.write('\u0003');
    expect(await byKey).toEqual([{ kind: 'interrupted' }]);
    const controller = new AbortController();
    const told = collect(typed(new PassThrough(), () => controller.signal));
    controller.abort();
    expect(await told).toEqual([end]);
  });

  it('H-43 takes as an answer only what is typed after the question was shown', async () => {
    const input = new PassThrough();
    const output = new PassThrough();
    const lines = typed(input, never, output);
    const first = lines.next();
    input.write('go\n/help\ny\n');
    expect(await first).toEqual(said('go'));
    input.write('y\nyes');
    const asked = prompts(output, 'sure? ');
    const answer = lines.answer({ prompt: 'sure? ' });
    await asked;
    input.write('n\n');
    expect(await answer).toEqual(said('n'));
    const next = lines.next();
    input.write('more\n');
    expect(await next).toEqual(said('more'));
  });

  it('H-43 tells Ctrl-C at a question from Ctrl-D, also where it was typed before the question', async () => {
    for (const [key, kind] of [
      ['\u0003', 'interrupted'],
      ['\u0004', 'end'],
    ] as const) {
      const input = new PassThrough();
      const output = new PassThrough();
      const asked = prompts(output, 'sure? ');
      const answer = typed(input, never, output).answer({ prompt: 'sure? ' });
      await asked;
      input.write(key);
      expect(await answer).toEqual({ kind });
    }
    const ahead = new PassThrough();
    ahead.write('y\n\u0003');
    expect(await typed(ahead).answer({ prompt: 'sure? ' })).toEqual({ kind: 'interrupted' });
  });

  it('H-43 shows nothing of a secret, and keeps it out of the history', async () => {
    const input = new PassThrough();
    const output = new PassThrough();
    const shown: string[] = [];
    output.on('data', (chunk) => shown.push(String(chunk)));
    const lines = typed(input, never, output);
    const asked = prompts(output, 'key: ');
    const answer = lines.answer({ prompt: 'key: ', secret: true });
    await asked;
    input.write('hunter2\n');
    expect(await answer).toEqual(said('hunter2'));
    const next = lines.next();
    input.write('\u001b[A\n');
    expect(await next).toEqual(said(''));
    expect(shown.join('')).not.toContain('hunter');
  });
});

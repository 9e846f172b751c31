import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { expect, it } from '@jest/globals';
import { type ReadPromptsOptions, readPrompts } from 'millrace/batch';
import { temporaryFolder } from './echoing.ts';

async function itemsOf(text: string, options?: ReadPromptsOptions) {
  const items = [];
  for await (const item of readPrompts(Readable.from([Buffer.from(text)]), options)) items.push(item);
  return items;
}

it('reads objects and strings of JSON, with the number of the line', async () => {
  const text =
    '{"key":"a","prompt":"x","metadata":{"n":1}}\n\n"y"\n{"key":7,"messages":[{"role":"user","content":"z"}]}';
  expect(await itemsOf(text)).toEqual([
    { key: 'a', prompt: 'x', metadata: { n: 1 }, line: 1 },
    { prompt: 'y', line: 3 },
    { key: '7', messages: [{ role: 'user', content: 'z' }], line: 4 },
  ]);
});

it('reads lines of text, where the first line is no JSON', async () => {
  expect(await itemsOf('\uFEFF Say hello. \r\n{braces} and "quotes"\n')).toEqual([
    { prompt: 'Say hello.', line: 1 },
    { prompt: '{braces} and "quotes"', line: 2 },
  ]);
  expect(await itemsOf('"x"', { format: 'text' })).toEqual([{ prompt: '"x"', line: 1 }]);
});

it('puts lines together that come in pieces, also within a character', async () => {
  const bytes = Buffer.from('"grüße"\n"zwei"\n');
  const pieces = Array.from(bytes, (_, at) => bytes.subarray(at, at + 1));
  const items = [];
  for await (const item of readPrompts(Readable.from(pieces))) items.push(item);
  expect(items).toEqual([
    { prompt: 'grüße', line: 1 },
    { prompt: 'zwei', line: 2 },
  ]);
});

it.each([
  ['{"prompt":"x"}\n{"prompt":', 'the input:2 is not JSON'],
  ['{"prompt":', 'the input:1 is not JSON'],
  ['{"prompt":"x","id":1}', 'the input:1 unknown property "id"; allowed: key, prompt, messages, metadata'],
  ['{"key":"a"}', 'the input:1 needs either prompt or messages'],
  ['{"prompt":7}', 'the input:1 prompt must be a string, not 7'],
  ['{"prompt":"x","key":true}', 'the input:1 key must be a string or a number, not true'],
  ['{"prompt":"x","metadata":[]}', 'the input:1 metadata must be an object'],
  ['{"messages":[]}', 'the input:1 messages must be an array of messages'],
  ['{"messages":[{"role":"x"}]}', 'the input:1 messages[0] needs a role'],
  ['"x"\n[1]', 'the input:2 must be an object { key, prompt } or a string'],
])('refuses the line %j and names it', async (text, message) => {
  await expect(itemsOf(text)).rejects.toMatchObject({
    code: 'INVALID_INPUT',
    message: expect.stringContaining(message),
  });
});

it('reads a file, names it, and closes it when it is left', async () => {
  const path = join(temporaryFolder(), 'prompts.jsonl');
  writeFileSync(path, '"x"\n{"prompt":7}\n');
  const reading = readPrompts(path);
  expect(await reading.next()).toEqual({ done: false, value: { prompt: 'x', line: 1 } });
  await expect(reading.next()).rejects.toThrow(`${path}:2 prompt must be a string`);
  const left = readPrompts(path);
  await left.next();
  expect(await left.return(undefined)).toEqual({ done: true, value: undefined });
});

it('refuses a file that cannot be read, naming it', async () => {
  const file = join(temporaryFolder(), 'none.jsonl');
  await expect(readPrompts(file).next()).rejects.toMatchObject({
    code: 'INVALID_INPUT',
    message: expect.stringMatching(/none\.jsonl cannot be read: .*ENOENT.*; name a file of prompts\.$/),
  });
});

import { describe, expect, it } from '@jest/globals';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { estimateTokens, gptTokenizer, type Message } from 'millrace';
import { calibrate, tokenCounter } from 'millrace/internals';
import { prose, timesAsLong } from '../processor-time.ts';

const samples = {
  English:
    'The journal of a turn holds every record in order, so that another process can go on where this one stopped. ',
  German:
    'Die Aufzeichnung eines Zuges enthält jeden Schritt in seiner Reihenfolge, damit ein anderer Prozess weitermachen kann. ',
  Russian: 'Журнал хранит каждую запись по порядку, чтобы другой процесс мог продолжить работу с того же места. ',
  Chinese: '日志按顺序保存每一条记录，以便另一个进程可以从这里继续执行任务。',
  Japanese: 'ジャーナルはすべての記録を順番に保存するので、別のプロセスがここから続けることができます。',
  JSON: '{"name":"search","arguments":{"query":"weather in Oslo","limit":10,"filters":["today","hourly"]}}',
  code: 'export function add(a: number, b: number): number {\n  return a + b;\n}\n',
};

describe('estimateTokens', () => {
  it.each(Object.entries(samples))('is within a factor of two of the real count of %s', (_, text) => {
    const real = countTokens(text);
    expect(estimateTokens(text)).toBeGreaterThan(real / 2);
    expect(estimateTokens(text)).toBeLessThan(real * 2);
  });

  it('counts a quarter, a half or a whole token by the kind of character, and rounds up', () => {
    expect([estimateTokens(''), estimateTokens('abcd'), estimateTokens('abcde')]).toEqual([0, 1, 2]);
    expect([estimateTokens('яяяя'), estimateTokens('漢字'), estimateTokens('😀')]).toEqual([2, 2, 2]);
  });

  it('adds what a message has beside its text', () => {
    const toolCalls = [{ id: 'a', type: 'function' as const, function: { name: 'look', arguments: '{"a":1}' } }];
    expect(estimateTokens({ role: 'user', content: 'abcd' })).toBe(5);
    expect(estimateTokens({ role: 'assistant', content: null })).toBe(4);
    expect(estimateTokens({ role: 'assistant', content: null, toolCalls, reasoning: 'abcdefgh' })).toBe(
      4 + 8 + 1 + 2 + 2,
    );
  });

  it('counts attachments by their kind, not by their base64', () => {
    const url = `data:image/png;base64,${'A'.repeat(100_000)}`;
    const image = (detail?: 'low'): Message => ({
      role: 'user',
      content: [{ type: 'image_url', image_url: detail ? { url, detail } : { url } }],
    });
    expect([estimateTokens(image()), estimateTokens(image('low'))]).toEqual([1_104, 89]);
    const file = (of: { file_data?: string; file_id?: string }): Message => ({
      role: 'user',
      content: [{ type: 'file', file: of }],
    });
    expect(estimateTokens(file({ file_data: 'A'.repeat(1_600) }))).toBe(304);
    expect(estimateTokens(file({ file_id: 'f-1' }))).toBe(1_004);
  });
});

describe('tokenCounter', () => {
  it('counts each message object once', () => {
    const texts: string[] = [];
    const counter = tokenCounter((text) => texts.push(text));
    const message: Message = { role: 'user', content: 'Hello' };
    expect([counter(message), counter(message), counter({ ...message })]).toEqual([5, 5, 6]);
    expect(texts).toEqual(['Hello', 'Hello']);
  });
});

describe('gptTokenizer', () => {
  it('counts texts as the encoding does, special tokens as plain text', async () => {
    const counter = await gptTokenizer();
    for (const text of Object.values(samples)) expect(counter(text)).toBe(countTokens(text));
    expect(counter('<|endoftext|>')).toBeGreaterThan(1);
    expect(counter('')).toBe(0);
    const older = await gptTokenizer({ encoding: 'cl100k_base' });
    expect(older(samples.Chinese)).toBeGreaterThan(counter(samples.Chinese));
  });

  it('counts long texts by pieces that change next to nothing', async () => {
    const counter = await gptTokenizer();
    const prose = samples.English.repeat(100);
    expect(counter(prose)).toBe(countTokens(prose));
    const unbroken = samples.Japanese.repeat(100);
    const real = countTokens(unbroken);
    expect(Math.abs(counter(unbroken) - real)).toBeLessThanOrEqual(unbroken.length / 500);
    for (const text of ['😀'.repeat(1_500), `x${'😀'.repeat(1_500)}`]) expect(counter(text)).toBe(countTokens(text));
  });

  it('counts a long text without blanks in linear time', async () => {
    const counter = await gptTokenizer();
    expect(counter('ab'.repeat(50_000))).toBeGreaterThan(10_000);
    const ordinary = prose(100_000);
    const compared = { run: () => counter('ab'.repeat(50_000)), base: () => counter(ordinary), most: 100 };
    expect(await timesAsLong(compared)).toBeLessThan(100);
  });
});

describe('calibrate', () => {
  it('corrects counts by what was reported, the latest calls most', () => {
    const counter = calibrate((what) => String(what).length);
    expect([counter.factor, counter.countTokens('abcd')]).toEqual([1, 4]);
    counter.learn(100, { promptTokens: 150 });
    expect([counter.factor, counter.countTokens('abcd')]).toEqual([1.5, 6]);
    for (let call = 0; call < 20; call++) counter.learn(100, { promptTokens: 80 });
    expect(counter.factor).toBeCloseTo(0.8, 4);
    expect(counter.countTokens('abcdef')).toBe(5);
  });

  it('learns nothing from guesses and from nothing, and never goes beyond a factor of four', () => {
    const counter = calibrate((what) => String(what).length);
    counter.learn(100, { promptTokens: 900, estimated: true });
    counter.learn(0, { promptTokens: 900 });
    counter.learn(100, { promptTokens: 0 });
    expect(counter.factor).toBe(1);
    counter.learn(1, { promptTokens: 900 });
    expect(counter.factor).toBe(4);
    for (let call = 0; call < 40; call++) counter.learn(100_000, { promptTokens: 1 });
    expect(counter.factor).toBe(0.25);
  });
});

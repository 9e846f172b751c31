import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Content, Message, ToolCall, ToolMessage } from 'millrace';
import { headAndTail, trimToolOutputs } from 'millrace/internals';
import { anyHistory } from './random-history.ts';

const call = (id: string): ToolCall => ({ id, type: 'function', function: { name: 'read', arguments: '{}' } });
const ask = (...ids: readonly string[]): Message => ({ role: 'assistant', content: null, toolCalls: ids.map(call) });
const result = (toolCallId: string, content: Content): ToolMessage => ({ role: 'tool', toolCallId, content });
const answer: Message = { role: 'assistant', content: 'I see.' };
const long = `${'a'.repeat(500)}${'z'.repeat(500)}`;

const contents = (messages: readonly Message[]) =>
  messages.filter((each) => each.role === 'tool').map(({ content }) => content);

describe('trimToolOutputs', () => {
  it('shortens old large outputs to their beginning, a note with the reference, and their end', () => {
    const messages = [ask('a', 'b'), result('a', long), result('b', 'short'), answer];
    const view = trimToolOutputs(messages, { keepLast: 0, maxChars: 100, reference: ({ id }) => `output-${id}` });
    expect(contents(view)).toEqual([
      `${'a'.repeat(19)}\n[… 962 characters left out; the full output is output-a …]\n${'z'.repeat(19)}`,
      'short',
    ]);
  });

  it('keeps the newest results whole, and all that the model has not answered yet', () => {
    const messages = [
      ask('a', 'b'),
      result('a', long),
      result('b', long),
      ask('c', 'd'),
      result('c', long),
      result('d', long),
    ];
    const whole = (keepLast: number) =>
      contents(trimToolOutputs(messages, { keepLast, maxChars: 100 })).map((content) => content === long);
    expect(whole(0)).toEqual([false, false, true, true]);
    expect(whole(2)).toEqual([false, false, true, true]);
    expect(whole(3)).toEqual([false, true, true, true]);
    expect(whole(9)).toEqual([true, true, true, true]);
  });

  it('names the call whose id a later batch uses again', () => {
    const first = { ...call('a'), function: { name: 'first', arguments: '{}' } };
    const messages: Message[] = [
      { role: 'assistant', content: null, toolCalls: [first] },
      result('a', long),
      ask('a'),
      result('a', long),
      answer,
    ];
    const view = trimToolOutputs(messages, { keepLast: 0, maxChars: 100, reference: (of) => of.function.name });
    expect(contents(view).map((content) => /output is (\w+)/.exec(String(content))?.[1])).toEqual(['first', 'read']);
  });

  it('leaves images and files out of what it shortens, and counts them by their size', () => {
    const url = `data:image/png;base64,${'A'.repeat(900)}`;
    const parts: Content = [
      { type: 'text', text: 'The screen:' },
      { type: 'image_url', image_url: { url } },
    ];
    const view = trimToolOutputs([ask('a'), result('a', parts), answer], { keepLast: 0, maxChars: 200 });
    expect(contents(view)).toEqual(['The screen:\n[… 1 attachment left out …]']);
  });

  const options = fc.record({ keepLast: fc.nat(3), maxChars: fc.constantFrom(1, 4, 80) });

  it('changes nothing else, is the same each time, and does nothing to its own result', () => {
    fc.assert(
      fc.property(anyHistory, options, (messages, each) => {
        const view = trimToolOutputs(messages, each);
        expect(view).toHaveLength(messages.length);
        for (const [index, message] of view.entries()) {
          if (message === messages[index]) continue;
          expect(messages[index]).toMatchObject({ role: 'tool' });
          expect({ ...message, content: '', metadata: {} }).toEqual({ ...messages[index], content: '', metadata: {} });
        }
        const again = trimToolOutputs(messages, each);
        for (const [index, message] of again.entries()) expect(message).toBe(view[index]);
        expect(trimToolOutputs(view, each)).toBe(view);
      }),
    );
  });

  it('looks at nothing in front of where it shall begin', () => {
    const messages = [ask('a'), result('a', long), ask('b'), result('b', long), answer];
    const view = trimToolOutputs(messages, { keepLast: 0, maxChars: 100 }, 2);
    expect(contents(view).map((content) => content === long)).toEqual([true, false]);
  });

  it('gives the array itself where nothing is shortened', () => {
    const messages = [ask('a'), result('a', 'short'), answer];
    expect(trimToolOutputs(messages, { keepLast: 0, maxChars: 100 })).toBe(messages);
  });
});

describe('headAndTail', () => {
  it('keeps within its length, with whole characters, and tells truly what is left out', () => {
    const text = fc.string({ unit: fc.constantFrom('x', '😀', 'é'), minLength: 61, maxLength: 200 });
    fc.assert(
      fc.property(text, fc.integer({ min: 10, max: 60 }), (whole, maxChars) => {
        const short = headAndTail(whole, maxChars, (leftOut) => `[${leftOut}]`);
        expect(short.length).toBeLessThanOrEqual(maxChars);
        expect(() => encodeURIComponent(short)).not.toThrow();
        const [, head = '', leftOut, tail = ''] = /^(.*)\n\[(\d+)\]\n(.*)$/s.exec(short) ?? [];
        expect(head.length + Number(leftOut) + tail.length).toBe(whole.length);
        expect(whole.startsWith(head) && whole.endsWith(tail)).toBe(true);
      }),
    );
  });
});

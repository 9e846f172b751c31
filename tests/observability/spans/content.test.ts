import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Message } from 'millrace';
import {
  contentJson,
  contentText,
  inputContent,
  outputContent,
  type TurnTracing,
  turnTracing,
} from 'millrace/internals';
import { ids, toolCall } from '../turn-spans.ts';

const tracing = turnTracing({ captureContent: true }, ids);

function limited(maxContentLength: number): TurnTracing {
  return { ...tracing, maxContentLength };
}

function parsed(value: unknown): unknown {
  return JSON.parse(String(value));
}

describe('what the model is sent', () => {
  const weather = toolCall('weather');
  const messages: readonly Message[] = [
    { role: 'system', content: 'Be brief.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Where is this?' },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
        { type: 'image_url', image_url: { url: 'https://example.org/a.png' } },
        { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,BBBB' } },
      ],
    },
    { role: 'assistant', content: null, toolCalls: [weather] },
    { role: 'tool', toolCallId: weather.id, content: 'rain' },
  ];

  it('is written as the conventions have it, pictures and files without their bytes', () => {
    const tools = [
      { type: 'function', function: { name: 'weather', description: 'd', parameters: {} }, timeoutMs: 5 },
    ] as const;
    const attributes = inputContent(tracing, { messages, tools });
    expect(parsed(attributes['gen_ai.system_instructions'])).toEqual([{ type: 'text', content: 'Be brief.' }]);
    expect(parsed(attributes['gen_ai.input.messages'])).toEqual([
      {
        role: 'user',
        parts: [
          { type: 'text', content: 'Where is this?' },
          { type: 'omitted', modality: 'image', mime_type: 'image/png' },
          { type: 'uri', modality: 'image', uri: 'https://example.org/a.png' },
          { type: 'omitted', modality: 'document', name: 'a.pdf', mime_type: 'application/pdf' },
        ],
      },
      { role: 'assistant', parts: [{ type: 'tool_call', id: weather.id, name: 'weather', arguments: {} }] },
      { role: 'tool', parts: [{ type: 'tool_call_response', id: weather.id, response: 'rain' }] },
    ]);
    expect(parsed(attributes['gen_ai.tool.definitions'])).toEqual([
      { type: 'function', name: 'weather', description: 'd', parameters: {} },
    ]);
    expect(JSON.stringify(attributes)).not.toMatch(/AAAA|BBBB/);
  });

  it('has no attribute for instructions and tools that are not there', () => {
    const attributes = inputContent(tracing, { messages: [{ role: 'user', content: 'hello' }] });
    expect(Object.keys(attributes)).toEqual(['gen_ai.input.messages']);
  });

  it('keeps the newest messages of a long history, as JSON, and stays within the limit by one message', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ maxLength: 60 }), { minLength: 1, maxLength: 30 }), (texts) => {
        const history = texts.map((content): Message => ({ role: 'user', content: `>${content}` }));
        const json = String(inputContent(limited(200), { messages: history })['gen_ai.input.messages']);
        const kept = JSON.parse(json) as { parts: { content: string }[] }[];
        const newest = history.slice(history.length - kept.length);
        expect(kept.map((message) => message.parts[0]?.content)).toEqual(newest.map((message) => message.content));
        const last = JSON.stringify(kept[0]).length;
        expect(json.length).toBeLessThanOrEqual(200 + last + kept.length + 1);
        if (kept.length < history.length) expect(json.length).toBeGreaterThanOrEqual(200);
      }),
    );
  });
});

describe('what the model answers', () => {
  it('is written with its calls and its finish reason', () => {
    const message = { role: 'assistant', content: 'Looking.' } as const;
    const attributes = outputContent(tracing, { message, toolCalls: [toolCall('weather')] });
    expect(parsed(attributes['gen_ai.output.messages'])).toEqual([
      {
        role: 'assistant',
        parts: [
          { type: 'text', content: 'Looking.' },
          { type: 'tool_call', id: 'call-weather', name: 'weather', arguments: {} },
        ],
        finish_reason: 'tool_call',
      },
    ]);
  });

  it.each([500, 501, 8_000])(
    'R-28 is written with arguments of %d levels, as a string if that is too deep',
    (levels) => {
      const text = '['.repeat(levels) + ']'.repeat(levels);
      const { id, type } = toolCall('weather');
      const call = { id, type, function: { name: 'weather', arguments: text } };
      const message = { role: 'assistant', content: null, toolCalls: [call] } as const;
      const given = levels > 500 ? text : JSON.parse(text);
      const part = { type: 'tool_call', id, name: 'weather', arguments: given };
      const [sent] = Object(parsed(inputContent(tracing, { messages: [message] })['gen_ai.input.messages']));
      expect(sent.parts).toEqual([part]);
      const answered = outputContent(tracing, { message, toolCalls: [call] })['gen_ai.output.messages'];
      expect(parsed(answered)).toMatchObject([{ parts: [part] }]);
    },
  );
});

describe('a text', () => {
  it('is redacted before it is cut, so that no half of a secret is left', () => {
    const redacting = { ...limited(8), redact: (text: string) => text.replace(/sk-\w+/, '[key]') };
    expect(contentText(redacting, 'is sk-1234567890 yours?')).toBe('is [key]… [7 more]');
    expect(contentText(limited(8), '12345678')).toBe('12345678');
  });

  it('of a value that is no JSON says so', () => {
    const circle: Record<string, unknown> = {};
    circle['self'] = circle;
    expect(contentJson(tracing, circle)).toBe('[not JSON]');
    expect(contentJson(tracing, undefined)).toBe('undefined');
    expect(contentJson(tracing, 10n)).toBe('[not JSON]');
  });
});

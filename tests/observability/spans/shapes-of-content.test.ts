import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Ajv } from 'ajv';
import {
  agent,
  agentTools,
  type Content,
  type ContentPart,
  type FilePart,
  type LLMProvider,
  type LLMResponse,
  type Message,
  type ToolCall,
  tool,
} from 'millrace';
import { recordSpans, type SpanRecorder } from 'millrace/testing';

/**
 * The shapes that the conventions of generative AI (1.41.0 and later) give to recorded content. A part of one of their types has that type's members; parts
 * of other types are allowed.
 */
const partMembers = {
  text: { required: ['content'], properties: { content: { type: 'string' } } },
  reasoning: { required: ['content'], properties: { content: { type: 'string' } } },
  tool_call: { required: ['name'], properties: { id: { type: ['string', 'null'] }, name: { type: 'string' } } },
  tool_call_response: { required: ['response'], properties: { id: { type: ['string', 'null'] } } },
  blob: {
    required: ['modality', 'content'],
    properties: { modality: { type: 'string' }, mime_type: { type: ['string', 'null'] }, content: { type: 'string' } },
  },
  file: {
    required: ['modality', 'file_id'],
    properties: { modality: { type: 'string' }, mime_type: { type: ['string', 'null'] }, file_id: { type: 'string' } },
  },
  uri: {
    required: ['modality', 'uri'],
    properties: {
      modality: { type: 'string' },
      mime_type: { type: ['string', 'null'] },
      uri: { type: 'string', not: { pattern: '^data:' } },
    },
  },
};
const part = {
  type: 'object',
  required: ['type'],
  properties: { type: { type: 'string' } },
  allOf: Object.entries(partMembers).map(([type, members]) => ({
    if: { properties: { type: { const: type } } },
    then: members,
  })),
};
const message = {
  type: 'object',
  required: ['role', 'parts'],
  properties: {
    role: { type: 'string' },
    name: { type: ['string', 'null'] },
    parts: { type: 'array', items: part },
  },
};
const schemas = {
  'gen_ai.input.messages': { type: 'array', items: message },
  'gen_ai.output.messages': {
    type: 'array',
    items: {
      ...message,
      required: [...message.required, 'finish_reason'],
      properties: { ...message.properties, finish_reason: { type: 'string' } },
    },
  },
  'gen_ai.system_instructions': { type: 'array', items: part },
  'gen_ai.tool.definitions': {
    type: 'array',
    items: {
      type: 'object',
      required: ['type', 'name'],
      properties: {
        type: { type: 'string' },
        name: { type: 'string' },
        description: { type: ['string', 'null'] },
        parameters: { type: ['object', 'boolean', 'null'] },
      },
    },
  },
  'gen_ai.tool.call.arguments': { type: 'object' },
};
type ContentAttribute = keyof typeof schemas;

const ajv = new Ajv({ strict: false });
const checks = new Map(Object.entries(schemas).map(([name, schema]) => [name, ajv.compile(schema)]));

let recorder: SpanRecorder;
beforeEach(() => {
  recorder = recordSpans();
});
afterEach(() => recorder.dispose());

/** The values of an attribute on all spans, each checked. */
function valuesOf(name: ContentAttribute): readonly unknown[] {
  return recorder.spans().flatMap(({ attributes }) => {
    const text = attributes[name];
    if (text === undefined) return [];
    const value: unknown = JSON.parse(String(text));
    const check = checks.get(name);
    if (!check?.(value)) throw new Error(`${name} has another shape: ${ajv.errorsText(check?.errors)}: ${text}`);
    return [value];
  });
}

/** The types of all parts that were recorded, in all attributes with messages. */
function partTypes(): ReadonlySet<string> {
  const names = ['gen_ai.input.messages', 'gen_ai.output.messages', 'gen_ai.system_instructions'] as const;
  const found = names.flatMap(valuesOf).flat();
  const parts = found.flatMap((each) => (Array.isArray(Object(each).parts) ? Object(each).parts : [each]));
  return new Set(parts.map((each) => String(Object(each).type)));
}

const image = (url: string): ContentPart => ({ type: 'image_url', image_url: { url } });
const file = (given: FilePart['file']): ContentPart => ({ type: 'file', file: given });
/** Every kind of part that a message can have; a new one does not compile until it is here. */
const partsOfEachType: Readonly<Record<ContentPart['type'], readonly ContentPart[]>> = {
  text: [{ type: 'text', text: 'Look.' }],
  image_url: [image('data:image/png;base64,AAAA'), image('data:,'), image('https://example.org/a.png')],
  file: [
    file({ file_id: 'file-1' }),
    file({ file_id: 'file-1', filename: 'a.pdf' }),
    file({ filename: 'a.pdf', file_data: 'data:application/pdf;base64,BBBB' }),
    file({ file_data: 'data:application/pdf;base64,BBBB' }),
  ],
};
const allParts = Object.values(partsOfEachType).flat();
const contents: readonly Content[] = ['plain', '', allParts, [], ...allParts.map((each) => [each])];

const call = (id: string, name: string, text = '{}'): ToolCall => ({
  id,
  type: 'function',
  function: { name, arguments: text },
});
const asking = (...toolCalls: readonly ToolCall[]): LLMResponse => ({
  message: { role: 'assistant', content: null, toolCalls, reasoning: 'They want it.' },
});
const answer: LLMResponse = { message: { role: 'assistant', content: 'Done.', reasoning: 'It is done.' } };
const providerOf = (...responses: readonly LLMResponse[]): LLMProvider => {
  const left = [...responses];
  return { info: { providerName: 'test', model: 'm' }, call: async () => left.shift() ?? answer };
};
const parameters = { type: 'object', properties: { city: { type: 'string' } } } as const;
const returning = (name: string, execute: () => unknown) =>
  tool({ name, description: `Returns ${name}.`, parameters, execute: async () => execute() });

describe('recorded content has the shapes of the conventions', () => {
  it('R-36 of every kind of part, in every kind of message', async () => {
    const toolCall = call('c1', 'seen');
    const history: readonly Message[] = contents.flatMap((content): readonly Message[] => [
      { role: 'user', name: 'Ada', content },
      { role: 'assistant', content, reasoning: 'Hm.', toolCalls: [toolCall] },
      { role: 'tool', toolCallId: toolCall.id, content },
      { role: 'system', content },
      { role: 'developer', content },
      { role: 'assistant', content },
    ]);
    const ada = agent({ id: 'ada', provider: providerOf(), captureContent: true });
    await ada.run([...history, { role: 'user', content: allParts }]);
    const known = ['text', 'reasoning', 'tool_call', 'tool_call_response', 'uri', 'file'];
    expect([...partTypes()].sort()).toEqual([...known, 'omitted'].sort());
    expect(JSON.stringify(recorder.spans().map(({ attributes }) => attributes))).not.toMatch(/AAAA|BBBB/);
  });

  it('R-36 of calls, their results, tools and sub-agents', async () => {
    const bo = agent({ id: 'bo', description: 'Helps.', provider: providerOf(), captureContent: true });
    const results = {
      text: () => 'rain',
      object: () => ({ sky: 'grey' }),
      nothing: () => undefined,
      parts: () => allParts,
      failure: () => {
        throw new Error('no such city');
      },
    };
    const names = Object.keys(results);
    const calls = names.map((name) => call(`c-${name}`, name, '{"city":"Bern"}'));
    const ada = agent({
      id: 'ada',
      systemPrompt: 'Be brief.',
      provider: providerOf(
        asking(...calls, call('c-bad', 'text', '{"city'), call('c-bo', 'bo', '{"message":"Help."}')),
      ),
      tools: Object.entries(results).map(([name, execute]) => returning(name, execute)),
      toolProviders: [agentTools([bo])],
      captureContent: true,
    });
    expect(await ada.run('Rain?')).toMatchObject({ text: 'Done.' });
    expect(valuesOf('gen_ai.system_instructions')).toContainEqual([{ type: 'text', content: 'Be brief.' }]);
    expect(valuesOf('gen_ai.tool.definitions')).toHaveLength(2);
    const given = valuesOf('gen_ai.tool.call.arguments');
    expect(given.filter((each) => JSON.stringify(each) === '{"city":"Bern"}')).toHaveLength(names.length);
    expect(given).toContainEqual({ message: 'Help.' });
    expect(partTypes()).toContain('tool_call_response');
    const resultOf = (name: string) =>
      recorder.spans().find(({ attributes }) => attributes['gen_ai.tool.call.id'] === `c-${name}`)?.attributes[
        'gen_ai.tool.call.result'
      ];
    expect(resultOf('text')).toBe('rain');
    expect(JSON.parse(String(resultOf('object')))).toEqual({ sky: 'grey' });
    expect(resultOf('failure')).toBeUndefined();
  });

  it('R-36 where texts are redacted and longer than the limit, and a message has 400 calls', async () => {
    const many = Array.from({ length: 400 }, (_, index) =>
      call(`c${index}`, `tool_${index % 300}`, JSON.stringify({ city: 'x'.repeat(400) })),
    );
    const tools = Array.from({ length: 300 }, (_, index) =>
      tool({
        name: `tool_${index}`,
        description: 'd'.repeat(300),
        parameters: { ...parameters, minProperties: 1 },
        execute: async () => 'y'.repeat(500),
      }),
    );
    const ada = agent({
      id: 'ada',
      provider: providerOf(asking(...many)),
      tools,
      captureContent: true,
      redact: (text) => text.replaceAll(/\d/g, '#'),
    });
    await ada.run('z'.repeat(50_000));
    expect(valuesOf('gen_ai.tool.definitions').map((each) => Object(each).length)).toEqual([300, 300]);
    for (const name of Object.keys(schemas) as readonly ContentAttribute[]) valuesOf(name);
    const longest = Math.max(
      ...recorder.spans().flatMap(({ attributes }) => Object.values(attributes).map((value) => String(value).length)),
    );
    // 16,384 characters of content, and the members around 400 calls.
    expect(longest).toBeLessThan(16_384 + 400 * 140);
  });
});

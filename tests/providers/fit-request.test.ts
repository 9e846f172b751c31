import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { ContentPart, LLMCallParams, Message, ToolDefinition } from 'millrace';
import { fitRequest, profileNames, profileOf, RefusedItems, requestFlaws, seenRequest } from 'millrace/internals';

type Profile = ReturnType<typeof profileOf>;

const origin = 'here';
const unknown = profileOf({ model: 'm' });

function fitted(params: LLMCallParams, profile: Profile = unknown, refused?: RefusedItems) {
  return fitRequest(params, { profile, origin, tools: true, toolChoice: true, refused });
}

function rolesOf(messages: readonly Message[]): readonly string[] {
  return messages.map(({ role }) => role);
}

function call(id: string, name = 'look', text = '{}') {
  return { id, type: 'function' as const, function: { name, arguments: text } };
}

const look: ToolDefinition = {
  type: 'function',
  function: { name: 'look', description: 'Looks.', parameters: { type: 'object', properties: {} } },
};
const picture: ContentPart = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } };
const question: Message = { role: 'user', content: 'Hi' };

describe('the messages of a fitted request', () => {
  it('are the same objects where there is nothing to change', () => {
    const messages: Message[] = [
      { role: 'system', content: 'Be brief.' },
      question,
      { role: 'assistant', content: 'Hello' },
      { role: 'user', content: [{ type: 'text', text: 'What is this?' }, picture] },
    ];
    const { params, changes } = fitted({ messages });
    expect(changes).toEqual([]);
    expect(params.messages).toEqual(messages);
    expect(params.messages[1]).toBe(messages[1]);
  });

  it('M-09 have an answer between a result and a user message, where the server wants one', () => {
    const messages: Message[] = [
      question,
      { role: 'assistant', content: null, toolCalls: [call('abcdefghi')] },
      { role: 'tool', toolCallId: 'abcdefghi', content: 'seen' },
      { role: 'user', content: 'and now?' },
    ];
    const sent = fitted({ messages, tools: [look] });
    expect(rolesOf(sent.params.messages)).toEqual(['user', 'assistant', 'tool', 'assistant', 'user']);
    const openai = fitted(
      { messages, tools: [look] },
      profileOf({ model: 'gpt-4.1', address: 'https://api.openai.com/v1' }),
    );
    expect(rolesOf(openai.params.messages)).toEqual(['user', 'assistant', 'tool', 'user']);
  });

  it('M-09 are without empty answers, and join what then stands together', () => {
    const messages: Message[] = [question, { role: 'assistant', content: ' ' }, { role: 'user', content: 'hello?' }];
    const { params, changes } = fitted({ messages });
    expect(params.messages).toEqual([{ role: 'user', content: 'Hi\n\nhello?' }]);
    expect(changes.map(({ kind }) => kind)).toEqual(['empty', 'order']);
  });

  it('M-09 have U+FFFD for half a surrogate pair, in texts, results and arguments', () => {
    const messages: Message[] = [
      { role: 'user', content: 'a\ud83d' },
      {
        role: 'assistant',
        content: null,
        toolCalls: [call('abcdefghi', 'look', '{"a":"\\ud83d","b":"\\ud83d\\ude00"}')],
      },
      { role: 'tool', toolCallId: 'abcdefghi', content: '\ude00b' },
    ];
    const { params } = fitted({ messages, tools: [look] });
    const sent = JSON.stringify(params.messages);
    expect(sent).toContain('a\ufffd');
    expect(sent).toContain('\ufffdb');
    expect(params.messages[1]).toMatchObject({ toolCalls: [{ function: { arguments: '{"a":"\ufffd","b":"😀"}' } }] });
  });

  it('M-09 have calls as text where no tools are offered and the server wants tools', () => {
    const messages: Message[] = [
      question,
      { role: 'assistant', content: null, toolCalls: [call('abcdefghi')] },
      { role: 'tool', toolCallId: 'abcdefghi', content: 'seen' },
    ];
    const { params } = fitted({ messages });
    expect(rolesOf(params.messages)).toEqual(['user', 'assistant', 'user']);
    expect(JSON.stringify(params.messages)).toContain('[result of look]\\nseen');
  });

  it('M-20 have a picture that a tool or the assistant gave in a user message, where the server wants it there', () => {
    const messages: Message[] = [
      question,
      { role: 'assistant', content: null, toolCalls: [call('abcdefghi')] },
      { role: 'tool', toolCallId: 'abcdefghi', content: [picture] },
      { role: 'assistant', content: [picture] },
      { role: 'user', content: 'bluer' },
    ];
    const { params } = fitted({ messages, tools: [look] });
    const seen = seenRequest(params, false).messages;
    expect(seen.filter(({ media }) => media > 0).map(({ role }) => role)).toEqual(['user', 'user']);
    const google = fitted({ messages, tools: [look] }, profileOf({ name: 'google', model: 'gemini-2.5-pro' }));
    expect(
      seenRequest(google.params, false)
        .messages.filter(({ media }) => media > 0)
        .map(({ role }) => role),
    ).toEqual(['tool', 'assistant']);
  });

  it('M-07 are without what another server gave for itself', () => {
    const own: Message = {
      role: 'assistant',
      content: 'a',
      metadata: { origin, wire: { message: { x: 1 } }, mine: 2 },
    };
    const other: Message = { ...own, metadata: { ...own.metadata, origin: 'there' } };
    const [, first, , second] = fitted({ messages: [question, own, question, other, question] }).params.messages;
    expect(first).toBe(own);
    expect(second).toEqual({ role: 'assistant', content: 'a', metadata: { mine: 2 } });
  });

  it('M-10 are without what the server refused, but for the question that is asked', () => {
    const old: Message = { role: 'user', content: [{ type: 'text', text: 'this?' }, picture] };
    const messages: Message[] = [
      old,
      { role: 'assistant', content: 'A cat.' },
      { role: 'user', content: 'Never mind.' },
    ];
    const refused = new RefusedItems().with('image exceeds 10 MB maximum', { messages });
    expect(refused).toBeDefined();
    expect(
      seenRequest(fitted({ messages }, unknown, refused).params, false).messages.map(({ media }) => media),
    ).toEqual([0, 0, 0]);
    expect(new RefusedItems().with('image exceeds 10 MB maximum', { messages: [old] })).toBeUndefined();
  });
});

describe('the settings of a fitted request', () => {
  it('M-18 are without reasoning that the server refused, also where another effort would be sent', () => {
    const params: LLMCallParams = { messages: [question], reasoning: 'minimal' };
    const refused = new RefusedItems().with('reasoning_effort is not supported', params);
    expect(refused).toBeDefined();
    const profile = profileOf({ model: 'o3', address: 'https://api.openai.com/v1' });
    expect(fitted(params, profile).params).toMatchObject({ reasoning: 'low' });
    expect(fitted(params, profile, refused).params).not.toHaveProperty('reasoning');
  });

  it('M-13 M-19 do not let the model reason where its schema goes as a forced tool', () => {
    const profile = profileOf({ name: 'anthropic', model: 'claude-opus-4-8' });
    const schemaOf = (schema: object): LLMCallParams => ({
      messages: [question],
      reasoning: 'low',
      responseFormat: { type: 'json_schema', name: 'out', schema: { ...schema } },
    });
    const record = fitted(
      schemaOf({ type: 'object', properties: { a: { type: 'object', additionalProperties: { type: 'string' } } } }),
      profile,
    );
    expect(record.strictFormat).toBe(false);
    expect(record.params.reasoning).toBe('none');
    expect(record.changes).toContainEqual(expect.objectContaining({ kind: 'setting', at: 'reasoning' }));
    const closed = fitted(
      schemaOf({ type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false }),
      profile,
    );
    expect([closed.strictFormat, closed.params.reasoning]).toEqual([true, 'low']);
  });

  it.each([
    ['gpt-5.6-luna', { temperature: 0, topP: 0.5, seed: 1 }, ['seed']],
    ['gpt-4.1', { temperature: 0, topP: 0.5 }, ['temperature', 'topP']],
    ['o4-mini', { stop: ['x'], parallelToolCalls: false }, []],
    ['claude-opus-4-8', { temperature: 0 }, []],
    ['claude-sonnet-4-5', { temperature: 0, reasoning: 'low' }, ['reasoning']],
    ['claude-sonnet-4-5', { temperature: 0 }, ['temperature']],
  ] as const)('M-18 %s takes of %j: %j', (model, settings, expected) => {
    const { params, changes } = fitted({ messages: [question], ...settings }, profileOf({ model }));
    const kept = Object.keys(settings).filter((name) => Reflect.get(params, name) !== undefined);
    expect(kept).toEqual(expected);
    const left = Object.keys(settings).filter((name) => !kept.includes(name));
    expect(changes.map(({ at }) => at)).toEqual(left);
  });

  it('M-19 offer a forced tool alone where the model reasons and takes no forced tool', () => {
    const other = { ...look, function: { ...look.function, name: 'other' } };
    const params = { messages: [question], tools: [other, look], toolChoice: { name: 'look' } };
    const thinking = fitted(params, profileOf({ model: 'deepseek-v4-pro' })).params;
    expect(thinking.toolChoice).toBe('auto');
    expect(thinking.tools).toEqual([look]);
    expect(fitted(params).params).toMatchObject({ toolChoice: { name: 'look' }, tools: [other, look] });
  });

  it('offer the forced tool, also where the server takes fewer tools than there are', () => {
    const tools = Array.from({ length: 130 }, (_, n) => ({ ...look, function: { ...look.function, name: `t${n}` } }));
    const { params, changes } = fitted({ messages: [question], tools, toolChoice: { name: 't129' } });
    expect(params.tools).toHaveLength(128);
    expect(params.toolChoice).toEqual({ name: 't129' });
    expect(params.tools?.at(-1)?.function.name).toBe('t129');
    expect(changes).toEqual([expect.objectContaining({ kind: 'tools' })]);
  });

  it('M-01 ask without reasoning where the endpoint takes tools with that alone', () => {
    const profile = profileOf({ model: 'gpt-6-sol', address: 'https://api.openai.com/v1' });
    const { params, changes } = fitted({ messages: [question], tools: [look], reasoning: 'high' }, profile);
    expect(params.reasoning).toBe('none');
    expect(changes).toEqual([expect.objectContaining({ kind: 'setting', at: 'reasoning' })]);
    expect(fitted({ messages: [question], reasoning: 'high' }, profile).params.reasoning).toBe('high');
  });
});

/** How many histories are tried; more by hand. */
const runs = Number(process.env['MILLRACE_PROPERTY_RUNS'] ?? 300);

describe('any history', () => {
  const half = fc.constantFrom('\ud83d', '\ude00');
  const text = fc.oneof(fc.constantFrom('', ' ', '\n', 'Hi', 'é😀'), fc.string(), half);
  const anyPart: fc.Arbitrary<ContentPart> = fc.oneof(
    text.map((each): ContentPart => ({ type: 'text', text: each })),
    fc.constant(picture),
    fc.constant<ContentPart>({
      type: 'file',
      file: { file_data: 'data:application/pdf;base64,AAAA', filename: 'a.pdf' },
    }),
  );
  const content = fc.oneof(text, fc.array(anyPart, { maxLength: 3 }));
  const id = fc.oneof(fc.constantFrom('', 'a', '1:0', 'functions.Read:0', 'call_1', `x${'y'.repeat(70)}`), fc.string());
  const name = fc.oneof(fc.constantFrom('', 'look', 'look.at it', '9', 'multi_tool_use.parallel'), fc.string());
  const text2 = fc.oneof(
    fc.constantFrom('', '{}', '{"a":', '[1]', '{"a":"\\ud83d"}', '{"a":"\ud83d"}'),
    fc.json(),
    fc.string(),
  );
  const anyCall = fc.record({ id, name, text: text2 }).map((each) => call(each.id, each.name, each.text));
  const metadata = fc.constantFrom(undefined, { origin }, { origin: 'there', wire: { message: { x: 1 } } });
  const message: fc.Arbitrary<Message> = fc.oneof(
    fc.record({ role: fc.constantFrom('system' as const, 'developer' as const), content }),
    fc.record({ role: fc.constant('user' as const), content }),
    fc.record({ role: fc.constant('user' as const), content, name }),
    fc
      .record({
        role: fc.constant('assistant' as const),
        content: fc.oneof(content, fc.constant(null)),
        toolCalls: fc.array(anyCall, { maxLength: 3 }),
        metadata,
      })
      .map(({ metadata: given, ...rest }): Message => (given === undefined ? rest : { ...rest, metadata: given })),
    fc.record({ role: fc.constant('tool' as const), toolCallId: id, content }),
  );
  const tool: fc.Arbitrary<ToolDefinition> = fc
    .record({
      name,
      parameters: fc.constantFrom<Record<string, unknown>>(
        { type: 'object' },
        { type: 'object', properties: { a: { type: 'array' } } },
        { anyOf: [{ type: 'object', properties: { a: {} } }, { type: 'object' }] },
        { type: 'object', properties: { a: { enum: ['', 'b'] } } },
      ),
    })
    .map((each) => ({ type: 'function', function: { ...each, description: '' } }));
  const params = fc.record({
    messages: fc.array(message, { maxLength: 8 }),
    tools: fc.uniqueArray(tool, { maxLength: 3, selector: (each) => each.function.name }),
    toolChoice: fc.constantFrom('auto' as const, 'none' as const, 'required' as const, { name: 'look' }, undefined),
    temperature: fc.constantFrom(undefined, 0),
    topP: fc.constantFrom(undefined, 0.5),
    stop: fc.constantFrom(undefined, ['x']),
    reasoning: fc.constantFrom(undefined, 'none' as const, 'low' as const, { budgetTokens: 1_024 }),
    parallelToolCalls: fc.constantFrom(undefined, false),
  });
  const models = [
    'm',
    'gpt-4.1',
    'gpt-6-sol',
    'o4-mini',
    'claude-opus-4-8',
    'gemini-3.6-flash',
    'mistral-small-4',
    'kimi-k2.7',
    'deepseek-v4-pro',
    'qwen3.8',
  ];

  it('M-08 becomes a request that the profile’s own check accepts, at every profile', () => {
    fc.assert(
      fc.property(params, fc.constantFrom(...profileNames), fc.constantFrom(...models), (given, server, model) => {
        const profile = profileOf({ name: server, model });
        const copy = JSON.stringify(given);
        const fitted = fitRequest(given, { profile, origin, tools: true, toolChoice: true });
        expect(JSON.stringify(given)).toBe(copy);
        const { reasoning } = fitted.params;
        const reasons = reasoning === undefined ? profile.rules.reasonsByDefault : reasoning !== 'none';
        expect(requestFlaws(seenRequest(fitted.params, reasons), profile.rules)).toEqual([]);
        const again = fitRequest(given, { profile, origin, tools: true, toolChoice: true });
        expect(again.params).toEqual(fitted.params);
      }),
      { numRuns: runs },
    );
  });
});

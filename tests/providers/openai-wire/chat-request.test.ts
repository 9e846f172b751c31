import { describe, expect, it } from '@jest/globals';
import type { LLMCallParams, Message, ToolDefinition } from 'millrace';
import { type ChatDialect, fitRequest, profileOf, chatRequest as wireRequest } from 'millrace/internals';

interface TestDialect extends Omit<ChatDialect, 'rules'> {
  readonly tools: boolean;
  readonly toolChoice: boolean;
}

const dialect: TestDialect = {
  model: 'gpt-x',
  tools: true,
  toolChoice: true,
  includeUsage: true,
  sendMetadata: false,
};

const question = { role: 'user', content: 'Hi' } as const;
const profile = profileOf({ name: 'openai-chat', model: 'gpt-x' });

function chatRequest(params: LLMCallParams, { tools, toolChoice, ...rest }: TestDialect, streaming: boolean) {
  const fitted = fitRequest(params, { profile, origin: 'here', tools, toolChoice });
  return wireRequest(fitted, { ...rest, rules: profile.rules }, streaming);
}

const weather: ToolDefinition = {
  type: 'function',
  function: {
    name: 'weather',
    description: 'The weather in a city.',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
  timeoutMs: 5_000,
  readOnly: true,
  onInDoubt: 'retry',
  checkArguments: (value) => ({ ok: true, value }),
};

const history: readonly Message[] = [
  { role: 'system', content: 'Be brief.', id: 'm0', createdAt: '2026-01-01T00:00:00Z', metadata: { secret: true } },
  {
    role: 'developer',
    content: [
      { type: 'text', text: 'Use' },
      { type: 'text', text: 'tools.' },
    ],
  },
  {
    role: 'user',
    content: [
      { type: 'text', text: 'What is this?' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'low' } },
      { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,BBBB' } },
    ],
  },
  {
    role: 'assistant',
    content: 'I look.',
    reasoning: 'A city.',
    toolCalls: [
      { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Rome"}' } },
      { id: '1:1', type: 'function', function: { name: 'weather', arguments: '' } },
    ],
  },
  { role: 'tool', toolCallId: 'call_1', content: '20 degrees', status: 'ok' },
  { role: 'tool', toolCallId: '1:1', content: 'Tool error: TypeError: no city', status: 'error' },
  { role: 'assistant', content: 'It is warm.', reasoning: 'Done.' },
  { role: 'user', content: 'Thanks' },
];

describe('chatRequest', () => {
  it('S4-19 S4-20 S0-06 S0-10 maps a history with parts, calls and results to the wire', () => {
    expect(chatRequest({ messages: history }, dialect, false)).toEqual({
      model: 'gpt-x',
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'developer', content: 'Use\ntools.' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is this?' },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'low' } },
            { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,BBBB' } },
          ],
        },
        {
          role: 'assistant',
          content: 'I look.',
          tool_calls: [
            { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Rome"}' } },
            {
              id: expect.stringMatching(/^[a-zA-Z0-9]{9}$/),
              type: 'function',
              function: { name: 'weather', arguments: '{}' },
            },
          ],
        },
        { role: 'tool', tool_call_id: 'call_1', content: '20 degrees' },
        {
          role: 'tool',
          tool_call_id: expect.stringMatching(/^[a-zA-Z0-9]{9}$/),
          content: 'Tool error: TypeError: no city',
        },
        { role: 'assistant', content: 'It is warm.' },
        { role: 'user', content: 'Thanks' },
      ],
    });
  });

  it('S4-19 is pure: the same parameters give the same body, and are left as they were', () => {
    const params = { messages: history, tools: [weather], toolChoice: 'auto' as const };
    const before = JSON.stringify(params);
    expect(chatRequest(params, dialect, true)).toEqual(chatRequest(params, dialect, true));
    expect(JSON.stringify(params)).toBe(before);
  });

  it('S4-14 S1-43 sends tools as type and function only, the choice, temperature and the token limit', () => {
    const messages: Message[] = [{ role: 'user', content: 'Hi' }];
    const body = chatRequest(
      {
        messages,
        tools: [weather],
        toolChoice: { name: 'weather' },
        temperature: 0,
        maxTokens: 50,
        metadata: { a: 1 },
      },
      dialect,
      true,
    );
    expect(body).toEqual({
      model: 'gpt-x',
      messages: [{ role: 'user', content: 'Hi' }],
      tools: [{ type: 'function', function: weather.function }],
      tool_choice: { type: 'function', function: { name: 'weather' } },
      temperature: 0,
      max_tokens: 50,
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(Object.keys(JSON.parse(JSON.stringify(body)).tools[0])).toEqual(['type', 'function']);
  });

  it.each(['auto', 'none', 'required'] as const)('S4-14 sends the choice %s as it is', (toolChoice) => {
    const body = chatRequest({ messages: [], tools: [weather], toolChoice }, dialect, false);
    expect(body['tool_choice']).toBe(toolChoice);
  });

  it('sends neither tools nor a choice where there are no tools', () => {
    for (const tools of [undefined, []]) {
      const params = { messages: [question], ...(tools && { tools }), toolChoice: 'required' as const };
      expect(chatRequest(params, dialect, false)).toEqual({ model: 'gpt-x', messages: [question] });
    }
  });

  it('S4-13 sends no choice to a model that knows none', () => {
    const body = chatRequest(
      { messages: [], tools: [weather], toolChoice: 'none' },
      { ...dialect, toolChoice: false },
      false,
    );
    expect(body).toHaveProperty('tools');
    expect(body).not.toHaveProperty('tool_choice');
  });

  it('S4-20 S4-13 sends calls and results as text to a model without tools', () => {
    const body = chatRequest({ messages: history.slice(3), tools: [weather] }, { ...dialect, tools: false }, false);
    expect(body).toEqual({
      model: 'gpt-x',
      messages: [
        { role: 'assistant', content: 'I look.\n[called weather with {"city":"Rome"}]\n[called weather with ]' },
        {
          role: 'user',
          content: [
            { type: 'text', text: '[result of weather]\n20 degrees' },
            { type: 'text', text: '[weather failed]\nTool error: TypeError: no city' },
          ],
        },
        { role: 'assistant', content: 'It is warm.' },
        { role: 'user', content: 'Thanks' },
      ],
    });
  });

  it('follows the dialect: token field, metadata, usage, reasoning, more members', () => {
    const body = chatRequest(
      { messages: history.slice(3, 7), maxTokens: 9, temperature: 1, metadata: { tags: ['a'] } },
      {
        ...dialect,
        maxTokensField: 'max_completion_tokens',
        sendMetadata: true,
        includeUsage: false,
        reasoningField: 'reasoning_content',
        extraBody: { reasoning_effort: 'low', temperature: 0.5 },
      },
      true,
    );
    expect(body).toMatchObject({
      max_completion_tokens: 9,
      metadata: { tags: ['a'] },
      reasoning_effort: 'low',
      temperature: 1,
      stream: true,
      messages: [{ reasoning_content: 'A city.' }, {}, {}, { content: 'It is warm.' }],
    });
    expect(body).not.toHaveProperty('max_tokens');
    expect(body).not.toHaveProperty('stream_options');
    expect(body.messages[3]).not.toHaveProperty('reasoning_content');
  });

  it('gives an assistant message with calls the reasoning field also where there was no reasoning', () => {
    const messages: Message[] = [
      {
        role: 'assistant',
        content: null,
        toolCalls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
    ];
    const [message] = chatRequest({ messages }, { ...dialect, reasoningField: 'reasoning' }, false).messages;
    expect(message).toMatchObject({ content: null, reasoning: '' });
  });

  it.each([
    ['{"a":1}', '{"a":1}'],
    ['', '{}'],
    [' ', '{}'],
    ['{"a":', '{"_raw":"{\\"a\\":"}'],
    ['[1]', '{"_raw":"[1]"}'],
  ])('sends the arguments %j as %s, an object that any server can parse', (text, expected) => {
    const messages: Message[] = [
      {
        role: 'assistant',
        content: null,
        toolCalls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: text } }],
      },
    ];
    const body = chatRequest({ messages }, dialect, false);
    expect(body.messages.slice(0, 1)).toMatchObject([
      { tool_calls: [{ function: { name: 'f', arguments: expected } }] },
    ]);
  });

  it('M-20 sends a picture in a result in a user message after the batch', () => {
    const picture = { type: 'image_url', image_url: { url: 'https://x.test/a.png' } } as const;
    const messages: Message[] = [
      {
        role: 'assistant',
        content: null,
        toolCalls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
      { role: 'tool', toolCallId: 'a', content: [{ type: 'text', text: 'Here' }, picture] },
    ];
    const body = chatRequest({ messages }, dialect, false);
    expect(body.messages.slice(1)).toEqual([
      { role: 'tool', tool_call_id: 'a', content: 'Here\n[its file follows in the next user message]' },
      { role: 'user', content: [{ type: 'text', text: '[from the result of f]' }, picture] },
    ]);
  });

  it('M-26 marks the instructions and the ends of the last two requests, where the server takes marks', () => {
    const messages: Message[] = [
      { role: 'system', content: 'Be brief.' },
      question,
      { role: 'assistant', content: 'Hello' },
      { role: 'user', content: 'More' },
    ];
    const bodyAt = (name: 'openrouter' | 'openai-chat') => {
      const at = profileOf({ name, model: 'anthropic/claude-opus-4-8' });
      const fitted = fitRequest(
        { messages, cache: true },
        { profile: at, origin: 'here', tools: true, toolChoice: true },
      );
      return wireRequest(fitted, { ...dialect, rules: at.rules }, false);
    };
    const marked = (text: string) => [{ type: 'text', text, cache_control: { type: 'ephemeral' } }];
    expect(bodyAt('openrouter').messages.map(({ content }) => content)).toEqual([
      marked('Be brief.'),
      marked('Hi'),
      'Hello',
      marked('More'),
    ]);
    expect(JSON.stringify(bodyAt('openai-chat'))).not.toContain('cache_control');
  });
});

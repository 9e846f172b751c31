import { describe, expect, it } from '@jest/globals';
import type { LLMCallParams, Message } from 'millrace';
import { createProvider } from 'millrace/ai-sdk';
import { lastValueFrom } from 'rxjs';
import { sendStream } from '../raw-server.ts';
import { goldenRequests, history, pixel } from './request-of-call.ts';
import { anthropic, chatText, google, isV4, openai, wires } from './vendor-wires.ts';

const { requestOf, server } = goldenRequests();

describe('where a call goes', () => {
  it.each([
    [anthropic.model, anthropic, 'x-api-key', 'key-of-a-test'],
    [google.model, google, 'x-goog-api-key', 'key-of-a-test'],
    [openai.model, openai, 'authorization', 'Bearer key-of-a-test'],
  ])('S0-02 %s: to the address of its vendor, with its way to show the key', async (_, wire, header, value) => {
    const { method, path, headers } = await requestOf(wire, { messages: [{ role: 'user', content: 'Hi' }] });
    expect([method, path]).toEqual(['POST', wire.path]);
    expect(headers[header]).toBe(value);
  });

  it('S0-02 openai-compatible: to the address that is given, without a key', async () => {
    const provider = await createProvider('openai-compatible:llama3:8b', { baseUrl: server().baseUrl });
    const [request] = await Promise.all([
      server()
        .next()
        .then((exchange) => {
          sendStream(exchange, chatText('ok'));
          return exchange;
        }),
      lastValueFrom(provider.stream({ messages: [{ role: 'system', content: 'S' }], maxTokens: 9 })),
    ]);
    expect(request.path).toBe('/v1/chat/completions');
    expect(request.headers.authorization).toBeUndefined();
    expect(request.body).toMatchObject({
      model: 'llama3:8b',
      messages: [
        { role: 'system', content: 'S' },
        { role: 'user', content: 'Continue.' },
      ],
      max_tokens: 9,
    });
  });

  it.each(wires)('%s: to another model where a call names one', async (vendor, wire) => {
    const { path, body } = await requestOf(wire, {
      messages: [{ role: 'user', content: 'Hi' }],
      model: `${vendor}:m-2`,
    });
    expect(body['model'] ?? path).toEqual(vendor === 'google' ? expect.stringContaining('/models/m-2:') : 'm-2');
  });
});

describe('results of tools', () => {
  it('S0-08 S0-09 S1-100 Anthropic: all results in one user message, objects as JSON, pictures as blocks, failures marked', async () => {
    const { body } = await requestOf(anthropic, { messages: history });
    expect(body['messages']).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'How is Oslo?' }] },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'I look.' },
          { type: 'tool_use', id: 'a', name: 'weather', input: { city: 'Oslo' } },
          { type: 'tool_use', id: 'b', name: 'camera', input: {} },
          { type: 'tool_use', id: 'c', name: 'radar', input: { km: 5 } },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'a', content: '{"celsius":4,"wind":{"ms":2.5}}' },
          {
            type: 'tool_result',
            tool_use_id: 'b',
            content: [
              { type: 'text', text: 'Two views:\nboth cloudy' },
              { type: 'image', source: { type: 'base64', media_type: 'image/png', data: pixel } },
              { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' } },
            ],
          },
          { type: 'tool_result', tool_use_id: 'c', content: 'out of order', is_error: true },
        ],
      },
    ]);
  });

  it('S0-08 S0-09 S1-100 Google: one user content, one response for each call, objects as objects', async () => {
    const { body } = await requestOf(google, { messages: history });
    expect(body['contents']).toEqual([
      { role: 'user', parts: [{ text: 'How is Oslo?' }] },
      {
        role: 'model',
        parts: [
          { text: 'I look.' },
          { functionCall: { id: 'a', name: 'weather', args: { city: 'Oslo' } } },
          { functionCall: { id: 'b', name: 'camera', args: {} } },
          { functionCall: { id: 'c', name: 'radar', args: { km: 5 } } },
        ],
      },
      {
        role: 'user',
        parts: [
          response('a', 'weather', { celsius: 4, wind: { ms: 2.5 } }),
          response('b', 'camera', 'Two views:\nboth cloudy'),
          { inlineData: { mimeType: 'image/png', data: pixel } },
          { text: 'Tool executed successfully and returned this image as a response' },
          { inlineData: { mimeType: 'application/pdf', data: 'JVBERi0=' } },
          { text: 'Tool executed successfully and returned this file as a response' },
          isV4
            ? { functionResponse: { id: 'c', name: 'radar', response: { name: 'radar', error: 'out of order' } } }
            : response('c', 'radar', 'out of order'),
        ],
      },
    ]);
  });

  it('S1-100 Gemini 3: pictures and files are parts of the response', async () => {
    const gemini3 = { ...google, model: 'google:gemini-3-pro-preview' };
    const { body } = await requestOf(gemini3, { messages: history });
    const [, , results] = Array.isArray(body['contents']) ? body['contents'] : [];
    expect(results.parts).toHaveLength(3);
    expect(results.parts[1].functionResponse).toMatchObject({
      id: 'b',
      response: { content: 'Two views:\nboth cloudy' },
      parts: [
        { inlineData: { mimeType: 'image/png', data: pixel } },
        { inlineData: { mimeType: 'application/pdf', data: 'JVBERi0=' } },
      ],
    });
  });

  it('S0-08 S0-09 S1-100 OpenAI: an output for each call, pictures and files in one user message behind them', async () => {
    const { body } = await requestOf(openai, { messages: history });
    expect(body['input']).toEqual([
      { role: 'developer', content: 'Be brief.' },
      { role: 'user', content: [{ type: 'input_text', text: 'How is Oslo?' }] },
      { role: 'assistant', content: isV4 ? 'I look.' : [{ type: 'output_text', text: 'I look.' }] },
      { type: 'function_call', call_id: 'a', name: 'weather', arguments: '{"city":"Oslo"}' },
      { type: 'function_call', call_id: 'b', name: 'camera', arguments: '{}' },
      { type: 'function_call', call_id: 'c', name: 'radar', arguments: '{"km":5}' },
      { type: 'function_call_output', call_id: 'a', output: '{"celsius":4,"wind":{"ms":2.5}}' },
      {
        type: 'function_call_output',
        call_id: 'b',
        output: 'Two views:\nboth cloudy\n[its 2 files follow in the next user message]',
      },
      { type: 'function_call_output', call_id: 'c', output: isV4 ? '{"error":"out of order"}' : 'out of order' },
      {
        role: 'user',
        content: [
          { type: 'input_text', text: '[from the result of camera]' },
          { type: 'input_image', image_url: `data:image/png;base64,${pixel}` },
          { type: 'input_file', filename: 'log.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' },
        ],
      },
    ]);
  });

  it('S0-09 sends a text that only looks like JSON to the letter', async () => {
    const content = '{"id": 12345678901234567890}';
    const messages: Message[] = [...history.slice(0, 3), { role: 'tool', toolCallId: 'a', content }];
    for (const [, wire] of wires) {
      const { body } = await requestOf(wire, { messages });
      expect(JSON.stringify(body)).toContain(JSON.stringify(content));
    }
  });
});

function response(id: string, name: string, content: unknown): object {
  return { functionResponse: { id, name, response: { name, content } } };
}

describe('instructions', () => {
  const messages: Message[] = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hi' },
    { role: 'developer', content: 'Be kind.' },
    { role: 'user', content: 'Well?' },
  ];

  it('S0-12 Anthropic: `system`; one of the history is merged into it', async () => {
    const { body } = await requestOf(anthropic, { messages });
    expect(body['system']).toEqual([{ type: 'text', text: 'Be brief.\n\nBe kind.' }]);
    expect(body['messages']).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Hi' },
          { type: 'text', text: 'Well?' },
        ],
      },
    ]);
  });

  it('S0-12 Google: `systemInstruction`', async () => {
    const { body } = await requestOf(google, { messages });
    expect(body['systemInstruction']).toEqual({ parts: [{ text: 'Be brief.\n\nBe kind.' }] });
    expect(body['contents']).toEqual([
      { role: 'user', parts: [{ text: 'Hi' }] },
      { role: 'user', parts: [{ text: 'Well?' }] },
    ]);
  });

  it('S0-12 OpenAI: one developer message in front', async () => {
    const { body } = await requestOf(openai, { messages });
    expect(body['input']).toEqual([
      { role: 'developer', content: 'Be brief.\n\nBe kind.' },
      { role: 'user', content: [{ type: 'input_text', text: 'Hi' }] },
      { role: 'user', content: [{ type: 'input_text', text: 'Well?' }] },
    ]);
  });
});

describe('tools and settings', () => {
  const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
  const tools = [
    {
      type: 'function' as const,
      function: { name: 'weather', description: 'Tells the weather.', parameters },
      timeoutMs: 5,
      readOnly: true,
    },
  ];
  const messages: Message[] = [{ role: 'user', content: 'Hi' }];

  it('are sent without the policy of the tool', async () => {
    const settings = { temperature: 0.5, maxTokens: 99 };
    const claude = (await requestOf(anthropic, { messages, tools, ...settings })).body;
    expect(claude).toMatchObject({ temperature: 0.5, max_tokens: 99 });
    expect(claude['tools']).toEqual([
      { name: 'weather', description: 'Tells the weather.', input_schema: parameters, eager_input_streaming: true },
    ]);
    const gemini = (await requestOf(google, { messages, tools, ...settings })).body;
    expect(gemini['generationConfig']).toEqual({ temperature: 0.5, maxOutputTokens: 99 });
    expect(gemini['tools']).toEqual([
      {
        functionDeclarations: [
          {
            name: 'weather',
            description: 'Tells the weather.',
            ...(isV4 ? { parametersJsonSchema: parameters } : { parameters }),
          },
        ],
      },
    ]);
    const gpt = (await requestOf(openai, { messages, tools, ...settings })).body;
    // A model that reasons takes no temperature.
    expect([gpt['temperature'], gpt['max_output_tokens']]).toEqual([undefined, 99]);
    expect(gpt['tools']).toEqual([
      { type: 'function', name: 'weather', description: 'Tells the weather.', parameters, strict: false },
    ]);
  });

  it.each([
    ['auto' as const, { type: 'auto' }, { mode: 'AUTO' }, 'auto'],
    ['required' as const, { type: 'any' }, { mode: 'ANY' }, 'required'],
    [
      { name: 'weather' },
      { type: 'tool', name: 'weather' },
      { mode: 'ANY', allowedFunctionNames: ['weather'] },
      { type: 'function', name: 'weather' },
    ],
  ])('tool choice %j', async (toolChoice, ofClaude, ofGemini, ofGpt) => {
    const params = { messages, tools, toolChoice };
    expect((await requestOf(anthropic, params)).body['tool_choice']).toEqual(ofClaude);
    expect((await requestOf(google, params)).body['toolConfig']).toEqual({ functionCallingConfig: ofGemini });
    expect((await requestOf(openai, params)).body['tool_choice']).toEqual(ofGpt);
  });

  it('tool choice none: nothing can be called', async () => {
    const params: LLMCallParams = { messages, tools, toolChoice: 'none' };
    const claude = (await requestOf(anthropic, params)).body;
    expect(claude['tool_choice']).toEqual({ type: 'none' });
    expect((await requestOf(google, params)).body['toolConfig']).toEqual({ functionCallingConfig: { mode: 'NONE' } });
    expect((await requestOf(openai, params)).body['tool_choice']).toBe('none');
  });

  it('the form of the answer, as each vendor can guarantee it', async () => {
    const schema = {
      type: 'object',
      properties: { n: { type: 'number' } },
      required: ['n'],
      additionalProperties: false,
    };
    const params: LLMCallParams = { messages, responseFormat: { type: 'json_schema', name: 'answer', schema } };
    expect((await requestOf(anthropic, params)).body['output_config']).toEqual({
      format: { type: 'json_schema', schema },
    });
    expect((await requestOf(google, params)).body['generationConfig']).toEqual({
      responseMimeType: 'application/json',
      ...(isV4
        ? { responseJsonSchema: schema }
        : { responseSchema: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] } }),
    });
    expect((await requestOf(openai, params)).body['text']).toEqual({
      format: { type: 'json_schema', name: 'answer', schema, strict: true },
    });
  });

  it('options of the vendor: those of the provider, and over them those of the call', async () => {
    const options = { providerOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 2048 } } } };
    const params = {
      messages,
      tools,
      providerOptions: { anthropic: { disableParallelToolUse: true }, google: { labels: { of: 'nobody' } } },
    };
    const { body } = await requestOf(anthropic, params, options);
    expect(body['thinking']).toEqual({ type: 'enabled', budget_tokens: 2048 });
    expect(body['tool_choice']).toEqual({ type: 'auto', disable_parallel_tool_use: true });
  });

  it('a model without tools gets calls and results as text', async () => {
    const { body } = await requestOf(
      google,
      { messages: history, tools, toolChoice: 'required' },
      { capabilities: { tools: false } },
    );
    expect([body['tools'], body['toolConfig']]).toEqual([undefined, undefined]);
    expect(JSON.stringify(body['contents'])).toContain('[called weather with {\\"city\\":\\"Oslo\\"}]');
  });
});

import { describe, expect, it } from '@jest/globals';
import { agent, type LLMChunk, type LLMResponse, redactSecrets } from 'millrace';
import { createProvider } from 'millrace/ai-sdk';
import { AgentLoop } from 'millrace/internals';
import type { LlmResponseEvent } from 'millrace/types';
import { lastValueFrom, tap } from 'rxjs';
import { type Exchange, event, sendJson, sendStream } from '../raw-server.ts';
import { vendorBench } from './vendor-bench.ts';
import { anthropic, claudeBlock, claudeStream, geminiBody, google, isV4 } from './vendor-wires.ts';

const bench = vendorBench();
const { configOf, answerWith, askedAndResumed } = bench;

function responseIn(chunk: LLMChunk): LLMResponse {
  if (chunk.type !== 'done') throw new Error('The stream did not end with done.');
  return chunk.response;
}

const signature = 'EqQBCkgIARABGAIiQL+/8J+YgOKAqA==\u2028';

describe('what a vendor wants back', () => {
  const thinking = [
    ...claudeBlock(0, { type: 'thinking', thinking: '', signature: '' }, [
      { type: 'thinking_delta', thinking: 'The user wants ' },
      { type: 'thinking_delta', thinking: 'a seat — 席. ' },
      { type: 'signature_delta', signature },
    ]),
    ...claudeBlock(1, { type: 'redacted_thinking', data: 'gAAAA+/==' }, []),
    ...claudeBlock(2, { type: 'text', text: '' }, [{ type: 'text_delta', text: 'I book ' }]),
    ...claudeBlock(3, { type: 'thinking', thinking: '', signature: '' }, [
      { type: 'thinking_delta', thinking: 'Row one.' },
      { type: 'signature_delta', signature: 'second' },
    ]),
    ...claudeBlock(4, { type: 'text', text: '' }, [{ type: 'text_delta', text: 'row 1.' }]),
    ...claudeBlock(5, { type: 'tool_use', id: 'toolu_1', name: 'seat', input: {} }, [
      { type: 'input_json_delta', partial_json: '{"row"' },
      { type: 'input_json_delta', partial_json: ':1}' },
    ]),
  ];
  const blocks = [
    { type: 'thinking', thinking: 'The user wants a seat — 席. ', signature },
    { type: 'redacted_thinking', data: 'gAAAA+/==' },
    { type: 'text', text: 'I book ' },
    { type: 'thinking', thinking: 'Row one.', signature: 'second' },
    { type: 'text', text: 'row 1.' },
    { type: 'tool_use', id: 'toolu_1', name: 'seat', input: { row: 1 } },
  ];

  it('Anthropic: thinking with its signatures, to the letter and in its place, also after the journal', async () => {
    const seen = await askedAndResumed(anthropic, [claudeStream(thinking, 'tool_use'), anthropic.text('Booked.')]);
    expect(seen).toHaveLength(2);
    expect(seen[1]?.body['messages']).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'Book.' }] },
      { role: 'assistant', content: blocks },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'booked A1' }] },
    ]);
  });

  it('Anthropic: reads as one text and one reasoning', async () => {
    answerWith([claudeStream(thinking, 'tool_use'), anthropic.text('Booked.')]);
    const loop = new AgentLoop(await configOf(anthropic, { toolProviders: [] }));
    const events = loop.startTurn([{ role: 'user', content: 'Book.' }]);
    const responses = [];
    for await (const one of events) if (one.kind === 'internal:llm-response') responses.push(one);
    expect(responses[0]).toMatchObject({
      text: 'I book row 1.',
      reasoning: 'The user wants a seat — 席. Row one.',
    });
  });

  it('Anthropic: a text that was redacted goes without its signature, the rest as it was', async () => {
    const secret = [
      ...claudeBlock(0, { type: 'thinking', thinking: '', signature: '' }, [
        { type: 'thinking_delta', thinking: 'The key is sk-verysecretkey.' },
        { type: 'signature_delta', signature },
      ]),
      ...claudeBlock(1, { type: 'text', text: '' }, [{ type: 'text_delta', text: 'I know.' }]),
      ...claudeBlock(2, { type: 'tool_use', id: 'toolu_1', name: 'nothing', input: {} }, []),
    ];
    const seen = answerWith([claudeStream(secret, 'tool_use'), anthropic.text('Booked.')]);
    const extensions = [redactSecrets({ values: ['sk-verysecretkey'] })];
    const loop = new AgentLoop(await configOf(anthropic, { extensions }));
    await loop.startTurn([{ role: 'user', content: 'Book.' }]).result();
    const [, answer] = Array.isArray(seen[1]?.body['messages']) ? seen[1].body['messages'] : [];
    expect(answer.content).toEqual([
      { type: 'text', text: 'I know.' },
      { type: 'tool_use', id: 'toolu_1', name: 'nothing', input: {} },
    ]);
  });

  it('Google: thoughts, and the signature at the call that had it, also after the journal', async () => {
    const parts = [
      { text: 'A seat, then.', thought: true },
      { text: 'I book.', thoughtSignature: 'c2lnLTA=' },
      { functionCall: { id: 'f1', name: 'seat', args: { row: 1 } }, thoughtSignature: signature },
      { functionCall: { id: 'f2', name: 'nothing', args: {} } },
    ];
    const seen = await askedAndResumed(google, [event(geminiBody(parts, 'STOP')), google.text('Booked.')]);
    const [, model, results] = Array.isArray(seen[1]?.body['contents']) ? seen[1].body['contents'] : [];
    expect(model).toEqual({ role: 'model', parts });
    expect(results.parts).toHaveLength(2);
  });

  it('goes to nobody else: another vendor gets text and calls', async () => {
    const seen = answerWith([claudeStream(thinking, 'tool_use'), google.text('Booked.')]);
    const claude = await configOf(anthropic, { toolProviders: [] });
    const gemini = (await configOf(google)).llmProvider;
    let asked = 0;
    const llmProvider = {
      call: claude.llmProvider.call.bind(claude.llmProvider),
      stream: (params: Parameters<typeof gemini.call>[0]) => {
        const provider = asked++ === 0 ? claude.llmProvider : gemini;
        if (provider.stream === undefined) throw new Error('It does not stream.');
        return provider.stream(params);
      },
    };
    await new AgentLoop({ ...claude, llmProvider }).startTurn([{ role: 'user', content: 'Book.' }]).result();
    const [, model] = Array.isArray(seen[1]?.body['contents']) ? seen[1].body['contents'] : [];
    expect(model).toEqual({
      role: 'model',
      parts: [{ text: 'I book row 1.' }, { functionCall: { id: 'toolu_1', name: 'seat', args: { row: 1 } } }],
    });
  });
});

describe('what runs at the vendor', () => {
  const search = claudeStream(
    [
      ...claudeBlock(0, { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} }, [
        { type: 'input_json_delta', partial_json: '{"query":"seats"}' },
      ]),
      ...claudeBlock(
        1,
        {
          type: 'web_search_tool_result',
          tool_use_id: 'srvtoolu_1',
          content: [
            {
              type: 'web_search_result',
              url: 'https://example.com/seats',
              title: 'Seats',
              encrypted_content: 'RW5j',
              page_age: null,
            },
          ],
        },
        [],
      ),
      ...claudeBlock(2, { type: 'text', text: '' }, [{ type: 'text_delta', text: 'Found.' }]),
      ...claudeBlock(3, { type: 'tool_use', id: 'toolu_1', name: 'nothing', input: {} }, []),
    ],
    'tool_use',
  );

  it('is no call of the turn, stays in the history, and its sources are told', async () => {
    const seen = answerWith([search, anthropic.text('Booked.')]);
    const { createAnthropic } = await import('@ai-sdk/anthropic');
    const llmProvider = await createProvider(anthropic.model, {
      apiKey: 'key-of-a-test',
      baseUrl: bench.server.baseUrl,
      providerTools: { look_up: createAnthropic({ apiKey: 'none' }).tools.webSearch_20250305({ maxUses: 2 }) },
    });
    const loop = new AgentLoop({ ...(await configOf(anthropic)), llmProvider });
    const turn = loop.startTurn([{ role: 'user', content: 'Search.' }]);
    const called: string[] = [];
    const answers: LlmResponseEvent[] = [];
    for await (const one of turn) {
      if (one.kind === 'internal:tool-complete') called.push(one.toolName);
      if (one.kind === 'internal:llm-response') answers.push(one);
    }
    expect(called).toEqual(['nothing']);
    expect(answers[0]).toMatchObject({
      vendorCalls: [{ id: 'srvtoolu_1', name: 'look_up', arguments: '{"query":"seats"}' }],
      sources: [{ sourceType: 'url', url: 'https://example.com/seats', title: 'Seats' }],
    });
    expect(answers[1]).not.toHaveProperty('vendorCalls');
    expect(answers[1]).not.toHaveProperty('sources');
    expect(seen[0]?.body['tools']).toContainEqual({ type: 'web_search_20250305', name: 'web_search', max_uses: 2 });
    const [, answer] = Array.isArray(seen[1]?.body['messages']) ? seen[1].body['messages'] : [];
    expect(answer.content).toEqual([
      { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'seats' } },
      {
        type: 'web_search_tool_result',
        tool_use_id: 'srvtoolu_1',
        content: [
          {
            type: 'web_search_result',
            url: 'https://example.com/seats',
            title: 'Seats',
            encrypted_content: 'RW5j',
            page_age: null,
          },
        ],
      },
      { type: 'text', text: 'Found.' },
      { type: 'tool_use', id: 'toolu_1', name: 'nothing', input: {} },
    ]);
    const { messages } = await turn.result();
    const sources = messages.find(({ role }) => role === 'assistant')?.metadata?.['sources'];
    expect(sources).toMatchObject([{ sourceType: 'url', url: 'https://example.com/seats', title: 'Seats' }]);
  });

  it.each([
    ['streamed', true],
    ['not streamed', false],
  ])('an answer that pauses for it is continued, %s', async (_how, isStreamed) => {
    const use = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'seats' } };
    const result = {
      type: 'web_search_tool_result',
      tool_use_id: 'srvtoolu_1',
      content: [
        {
          type: 'web_search_result',
          url: 'https://example.com/seats',
          title: 'Seats',
          encrypted_content: 'RW5j',
          page_age: null,
        },
      ],
    };
    const cited = {
      type: 'web_search_result_location',
      url: 'https://example.com/seats',
      title: 'Seats',
      encrypted_index: 'RW5k',
      cited_text: 'Row 1',
    };
    const text = { type: 'text', text: 'Let me look. ' };
    const found = { type: 'text', text: 'Row 1 is free.', citations: [cited] };
    const wholes = [
      { content: [text, use], stop_reason: 'pause_turn' },
      { content: [result, found], stop_reason: 'end_turn' },
    ];
    const streams = [
      claudeStream(
        [
          ...claudeBlock(0, { type: 'text', text: '' }, [{ type: 'text_delta', text: text.text }]),
          ...claudeBlock(1, { ...use, input: {} }, [{ type: 'input_json_delta', partial_json: '{"query":"seats"}' }]),
        ],
        'pause_turn',
      ),
      claudeStream(
        [
          ...claudeBlock(0, result, []),
          ...claudeBlock(1, { type: 'text', text: '' }, [
            { type: 'text_delta', text: found.text },
            { type: 'citations_delta', citation: cited },
          ]),
        ],
        'end_turn',
      ),
    ];
    const seen: Exchange[] = [];
    bench.server.answer((exchange) => {
      const whole = wholes[seen.length];
      const stream = streams[seen.push(exchange) - 1] ?? '';
      if (isStreamed) sendStream(exchange, stream);
      else sendJson(exchange, { ...Object(anthropic.body('')), ...whole });
    });
    const { createAnthropic } = await import('@ai-sdk/anthropic');
    const provider = await createProvider(anthropic.model, {
      apiKey: 'key-of-a-test',
      baseUrl: bench.server.baseUrl,
      providerTools: { look_up: createAnthropic({ apiKey: 'none' }).tools.webSearch_20250305({ maxUses: 2 }) },
    });
    const messages = [{ role: 'user' as const, content: 'Search.' }];
    const chunks: LLMChunk[] = [];
    const response = isStreamed
      ? responseIn(await lastValueFrom(provider.stream({ messages }).pipe(tap((chunk) => chunks.push(chunk)))))
      : await provider.call({ messages });
    const page = { sourceType: 'url', url: 'https://example.com/seats', title: 'Seats' };
    expect(response).toMatchObject({
      message: {
        content: 'Let me look. Row 1 is free.',
        metadata: {
          vendorCalls: [{ id: 'srvtoolu_1', name: 'look_up', arguments: '{"query":"seats"}' }],
          // The page that was found. Of what is cited, models of v3 give a source each.
          sources: isV4 ? [page] : [page, { ...page, providerMetadata: { anthropic: { citedText: 'Row 1' } } }],
        },
      },
      finishReason: 'stop',
      usage: { promptTokens: 14, completionTokens: 10, totalTokens: 24 },
    });
    if (isStreamed)
      expect(chunks.flatMap((chunk) => (chunk.type === 'text' ? [chunk.text] : []))).toEqual([
        'Let me look. ',
        'Row 1 is free.',
      ]);
    expect(seen).toHaveLength(2);
    const [, answer] = Array.isArray(seen[1]?.body['messages']) ? seen[1].body['messages'] : [];
    expect(answer).toEqual({ role: 'assistant', content: [text, use] });
    // It stays one answer where it is sent again, with what it cites.
    bench.server.answer((exchange) => {
      seen.push(exchange);
      sendJson(exchange, anthropic.body('Bye.'));
    });
    await provider.call({ messages: [...messages, response.message, { role: 'user', content: 'Thanks.' }] });
    const [, whole] = Array.isArray(seen[2]?.body['messages']) ? seen[2].body['messages'] : [];
    expect(whole).toEqual({ role: 'assistant', content: [text, use, result, found] });
  });

  it('code that Google runs, and the pages it cites, are in the event of the answer', async () => {
    const parts = [
      { executableCode: { language: 'PYTHON', code: 'print(6 * 7)' } },
      { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '42' } },
      { text: 'It is 42.' },
    ];
    const grounded = {
      candidates: [
        {
          content: { role: 'model', parts: [{ text: '' }] },
          groundingMetadata: { groundingChunks: [{ web: { uri: 'https://example.com/42', title: 'Why' } }] },
          finishReason: 'STOP',
        },
      ],
    };
    answerWith([event(geminiBody(parts)) + event(grounded)]);
    const { createGoogleGenerativeAI } = await import('@ai-sdk/google');
    const llmProvider = await createProvider(google.model, {
      apiKey: 'key-of-a-test',
      baseUrl: bench.server.baseUrl,
      providerTools: { code_execution: createGoogleGenerativeAI({ apiKey: 'none' }).tools.codeExecution({}) },
    });
    const turn = new AgentLoop({ agentId: 'agent', llmProvider }).startTurn([{ role: 'user', content: '6 * 7?' }]);
    const answers: LlmResponseEvent[] = [];
    for await (const one of turn) if (one.kind === 'internal:llm-response') answers.push(one);
    expect(answers).toMatchObject([
      {
        text: 'It is 42.',
        vendorCalls: [{ name: 'code_execution', arguments: expect.stringContaining('print(6 * 7)') }],
        sources: [{ sourceType: 'url', url: 'https://example.com/42', title: 'Why' }],
      },
    ]);
  });

  it('gives a value in the native form of the vendor, where capabilities say so', async () => {
    const seen = answerWith([anthropic.text('{"n":7}')]);
    const bot = agent({
      name: 'bot',
      provider: await createProvider(anthropic.model, {
        apiKey: 'key-of-a-test',
        baseUrl: bench.server.baseUrl,
        capabilities: { responseFormat: true },
      }),
      output: {
        schema: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'], additionalProperties: false },
        mode: 'native',
      },
    });
    const { value } = await bot.run('Seven?');
    expect(value).toEqual({ n: 7 });
    expect(seen[0]?.body['output_config']).toMatchObject({ format: { type: 'json_schema' } });
  });

  it('a picture that the model made is a part of its message, and goes back as it was', async () => {
    const parts = [
      { text: 'Here: ' },
      { inlineData: { mimeType: 'image/png', data: 'iVBORw0KGgo=' }, thoughtSignature: signature },
      { text: 'nice?' },
      { functionCall: { id: 'f1', name: 'nothing', args: {} } },
    ];
    const seen = answerWith([event(geminiBody(parts, 'STOP')), google.text('Booked.')]);
    const loop = new AgentLoop(await configOf(google));
    const result = await loop.startTurn([{ role: 'user', content: 'Draw.' }]).result();
    expect(result.messages.find(({ role }) => role === 'assistant')?.content).toEqual([
      { type: 'text', text: 'Here: nice?' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
    ]);
    const [, model] = Array.isArray(seen[1]?.body['contents']) ? seen[1].body['contents'] : [];
    expect(model).toEqual({ role: 'model', parts });
  });
});

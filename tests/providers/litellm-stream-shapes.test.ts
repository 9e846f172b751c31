import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { LLMResponse } from 'millrace';
import { charactersParsed } from '../characters-passed.ts';
import { cutAt, fetchOf, replay, replayCall, replayText } from './piecewise.ts';
import { callDelta, completion, delta, done, event, wireCall } from './raw-server.ts';

const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };
const counted = { promptTokens: 3, completionTokens: 4, totalTokens: 7 };

/** As these servers write them, with what differs from the others. */
const servers: readonly (readonly [string, string])[] = [
  [
    'vLLM: the finish reason is in a chunk with an empty text and a stop reason',
    delta({ role: 'assistant', content: '' }) +
      delta({ content: 'Hello' }) +
      event({ choices: [{ index: 0, delta: { content: '' }, finish_reason: 'stop', stop_reason: null }] }) +
      event({ choices: [], usage }) +
      done,
  ],
  [
    'llama.cpp: null content first, timings beside the choices',
    delta({ role: 'assistant', content: null }) +
      delta({ content: 'Hello' }) +
      event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage, timings: { predicted_n: 4 } }) +
      done,
  ],
  [
    'LM Studio: comments, a fingerprint, a null `logprobs`',
    `: ping\n\n${event({ choices: [{ index: 0, delta: { role: 'assistant', content: 'Hello' }, logprobs: null, finish_reason: null }], system_fingerprint: 'm' })}` +
      event({ choices: [{ index: 0, delta: {}, logprobs: null, finish_reason: 'stop' }] }) +
      event({ choices: [], usage }) +
      done,
  ],
];

/** As a server writes it that never gives a finish reason. */
function withoutReason(stream: string): string {
  return stream.replace(/"finish_reason":"[^"]*"/g, '"finish_reason":null');
}

describe('servers of ones own machine', () => {
  it.each(servers)('H-38 are read, with and without a finish reason: %s', async (_, stream) => {
    for (const sent of [stream, withoutReason(stream)]) {
      const { response } = await replayText(sent);
      expect(response).toMatchObject({ message: { content: 'Hello' }, finishReason: 'stop', usage: counted });
    }
  });

  it('H-38 [DONE] ends an answer whose calls are complete', async () => {
    const calls = callDelta(0, { id: 'a', name: 'look', args: '{"at":' }) + callDelta(0, { args: '1}' });
    const { response } = await replayText(calls + done);
    expect(response).toMatchObject({ toolCalls: [wireCall('a', 'look', '{"at":1}')], finishReason: 'tool_calls' });
    const none = await replayText(callDelta(0, { id: 'a', name: 'look' }) + done);
    expect(none.response).toMatchObject({ toolCalls: [wireCall('a', 'look', '')], finishReason: 'tool_calls' });
  });

  it.each([
    ['nothing', done],
    ['an empty text', delta({ content: '' }) + done],
    ['a call that is cut off', callDelta(0, { id: 'a', name: 'look', args: '{"at":' }) + done],
    ['a text and a call that is cut off', delta({ content: 'a' }) + callDelta(0, { name: 'look', args: '{' }) + done],
  ])('H-38 [DONE] ends no answer of %s', async (_, stream) => {
    await expect(replayText(stream)).rejects.toMatchObject({ code: /PROVIDER_(STREAM_CLOSED|PROTOCOL)/ });
  });

  it.each(servers)('H-38 a stream without a finish reason and without [DONE] is broken off: %s', async (_, stream) => {
    await expect(replayText(withoutReason(stream).replace(done, ''))).rejects.toMatchObject({
      code: 'PROVIDER_STREAM_CLOSED',
    });
  });

  it.each(servers)('H-38 are read where they call an event stream JSON: %s', async (_, stream) => {
    const bytes = new TextEncoder().encode(`\n${stream}`);
    for (const places of [[], [1], [3, 7], [2, 4, 6, 40]]) {
      const { response } = await replay([], {
        fetch: fetchOf(cutAt(bytes, places), 'application/json; charset=utf-8'),
      });
      expect(response).toMatchObject({ message: { content: 'Hello' }, usage: counted });
    }
  });
});

describe('fragments of one call that all have its name', () => {
  const piece = 'a'.repeat(40);
  const stop = delta({}, 'tool_calls') + done;
  const named = (count: number, args: string, more: object = {}) =>
    callDelta(0, { name: 'look', args, ...more }).repeat(count);

  it('are parsed once, not each time that one comes', async () => {
    const sent = `${named(1, '["')}${named(500, piece)}${named(500, '}')}${named(1, '"]')}${stop}`;
    const parsed = await charactersParsed(async () => {
      const { response } = await replayText(sent);
      expect(response.toolCalls).toEqual([wireCall('', 'look', `["${piece.repeat(500)}${'}'.repeat(500)}"]`)]);
    });
    expect(parsed).toBeLessThan(sent.length + 2 * 500 * 41);
  });

  it('are parsed once where only the first has the name', async () => {
    const more = callDelta(0, { args: piece }).repeat(2_000);
    const sent = `${named(1, '["')}${more}${callDelta(0, { args: '"]' })}${stop}`;
    const parsed = await charactersParsed(async () => {
      expect((await replayText(sent)).response.toolCalls).toHaveLength(1);
    });
    expect(parsed).toBeLessThan(sent.length + 3 * 2_000 * piece.length);
  });

  it('of a call that is complete begin others, which do not parse it again', async () => {
    const [id, args] = ['i', `["${piece.repeat(1_000)}"]`];
    const more = Array.from({ length: 300 }, (_, n) => callDelta(undefined, { id, name: 'look', args: `[${n}]` })).join(
      '',
    );
    const sent = callDelta(undefined, { id, name: 'look', args }) + more + stop;
    const parsed = await charactersParsed(async () => {
      expect((await replayText(sent)).response.toolCalls).toHaveLength(301);
    });
    expect(parsed).toBeLessThan(sent.length + 2 * args.length);
  });

  it.each(['{"a":1}', ' [ "]" ] ', 'null', '""', `{"a":"${piece}\\"}"}`, `{"a":"${piece}"}\n`])(
    'begin another call after %j',
    async (args) => {
      const sent = named(1, args.slice(0, 3)) + named(1, args.slice(3)) + named(1, '{}') + stop;
      const { response } = await replayText(sent);
      expect(response.toolCalls).toEqual([wireCall('', 'look', args), wireCall('', 'look', '{}')]);
    },
  );

  it.each([`{"a":"${piece}`, `{"a":"${piece}"} x`, `{"a":oops,"b":"${piece}"}`, `"${piece}`])(
    'do not begin another call after %j',
    async (args) => {
      const sent = named(1, args) + callDelta(0, { args: ' ' }) + named(2, '{}') + stop;
      const { response } = await replayText(sent);
      expect(response.toolCalls).toEqual([wireCall('', 'look', `${args} {}{}`)]);
    },
  );
});

describe('sources of an answer', () => {
  const cited = (url: string, title?: string) => ({ type: 'url_citation', url_citation: { url, title } });
  const first = { id: 'source-0', sourceType: 'url', url: 'https://a.example/', title: 'A' };
  const second = { id: 'source-1', sourceType: 'url', url: 'https://b.example/' };

  it('are what OpenAI cites, each page once, streamed or not', async () => {
    const annotations = [
      cited('https://a.example/', 'A'),
      cited('https://b.example/'),
      cited('https://a.example/', 'A'),
    ];
    const stream =
      delta({ content: 'Hi' }) + delta({ annotations: [...annotations, { type: 'odd' }, null] }) + delta({}, 'stop');
    const { response } = await replayText(stream + done);
    expect(response.message).toEqual({ role: 'assistant', content: 'Hi', metadata: { sources: [first, second] } });
    const whole = await replayCall(JSON.stringify(completion({ role: 'assistant', content: 'Hi', annotations })));
    expect(whole.message).toEqual(response.message);
  });

  it('are the addresses that Perplexity and xAI list beside each chunk', async () => {
    const listed = (choices: object[]) => event({ choices, citations: ['https://b.example/', 7] });
    const chunk = { index: 0, delta: { content: 'Hi' }, finish_reason: null };
    const { response } = await replayText(
      listed([chunk]) + listed([{ index: 0, delta: {}, finish_reason: 'stop' }]) + done,
    );
    expect(response.message.metadata).toEqual({ sources: [{ ...second, id: 'source-0' }] });
  });
});

describe('the shapes of a stream', () => {
  it('takes empty choices, chunks of usage only, null content, and a finish reason in a chunk of its own', async () => {
    const { chunks, response } = await replayText(
      [
        event({ id: 'x', choices: [], prompt_filter_results: [{ prompt_index: 0 }] }),
        delta({ role: 'assistant', content: null }),
        delta({ content: 'Hel' }),
        delta({ content: null }),
        delta({ content: 'lo' }),
        delta({}, 'stop'),
        event({ id: 'x', choices: [], usage }),
        done,
      ].join(''),
    );
    expect(chunks).toEqual([
      { type: 'text', text: 'Hel' },
      { type: 'text', text: 'lo' },
    ]);
    expect(response).toEqual({
      message: { role: 'assistant', content: 'Hello' },
      finishReason: 'stop',
      usage: counted,
      id: 'x',
      model: 'm-1',
    });
  });

  it("takes a chunk of usage that has no choices at all, and Groq's usage in its own member", async () => {
    const plain = await replayText(delta({ content: 'a' }, 'stop') + event({ usage }) + done);
    expect(plain.response.usage).toEqual(counted);
    const groq = await replayText(
      delta({ content: 'a' }) + event({ choices: [{ delta: {}, finish_reason: 'stop' }], x_groq: { usage } }),
    );
    expect(groq.response.usage).toEqual(counted);
  });

  it('takes a stream that ends without [DONE] once it has a finish reason', async () => {
    const { response } = await replayText(delta({ content: 'all' }, 'stop'));
    expect(response.message.content).toBe('all');
  });

  it('takes a last event without its blank line, and leaves out one that is cut off after the finish reason', async () => {
    const tail = `data: ${JSON.stringify({ choices: [], usage })}`;
    expect((await replayText(delta({ content: 'a' }, 'stop') + tail)).response.usage).toEqual(counted);
    expect((await replayText(delta({ content: 'a' }, 'stop') + tail.slice(0, -5))).response.usage).toBeUndefined();
  });

  it('ignores what follows [DONE]', async () => {
    const { response } = await replayText(delta({ content: 'a' }, 'stop') + done + delta({ content: 'b' }));
    expect(response.message.content).toBe('a');
  });

  it('ignores choices beyond the first', async () => {
    const second = event({ choices: [{ index: 1, delta: { content: 'no' }, finish_reason: 'length' }] });
    const { response } = await replayText(delta({ content: 'yes' }) + second + delta({}, 'stop') + done);
    expect(response).toMatchObject({ message: { content: 'yes' }, finishReason: 'stop' });
  });

  it.each([
    ['LF', '\n'],
    ['CRLF', '\r\n'],
    ['CR', '\r'],
  ])('takes line ends %s, comments, fields without a space and multi-byte characters, cut anywhere', async (_, end) => {
    const texts = ['Grüße ', '日本語 ', '👩‍👩‍👧'];
    const chunk = (text: string) => `data:${JSON.stringify({ choices: [{ delta: { content: text } }] })}`;
    const lines = [
      '\uFEFF: warm-up',
      ': keep-alive',
      '',
      ...texts.flatMap((text) => [chunk(text), '', ': ping', '', 'id: 7', 'retry: 3', '']),
      'event: message',
    ];
    const last = [
      `data: ${JSON.stringify({ choices: [{ delta: {}, finish_reason: 'stop' }] })}`,
      '',
      'data: [DONE]',
      '',
      '',
    ];
    const bytes = new TextEncoder().encode([...lines, ...last].join(end));
    const expected = texts.map((text) => ({ type: 'text', text }));
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(bytes.length), { maxLength: 60 }), async (cuts) => {
        const { chunks, response } = await replay(cutAt(bytes, cuts));
        expect(chunks).toEqual(expected);
        expect(response.message.content).toBe(texts.join(''));
      }),
      { numRuns: 40 },
    );
  });

  it('joins the data lines of one event', async () => {
    const split = 'data: {"choices":[{"delta":{"content":"two"},\ndata: "finish_reason":"stop"}]}\n\n';
    expect((await replayText(split + done)).response.message.content).toBe('two');
  });

  it("keeps reasoning in both spellings, once where both are given, and in Mistral's parts", async () => {
    const both = delta({ reasoning: 'think', reasoning_content: 'think' });
    const { chunks, response } = await replayText(
      [
        both,
        delta({ reasoning: ' more' }),
        delta({ reasoning_content: ' still' }),
        delta({
          content: [
            { type: 'thinking', thinking: [{ type: 'text', text: ' yet' }] },
            { type: 'text', text: 'so' },
          ],
        }),
        delta({}, 'stop'),
      ].join(''),
    );
    expect(chunks.map(({ type }) => type)).toEqual(['reasoning', 'reasoning', 'reasoning', 'reasoning', 'text']);
    expect(response.message).toEqual({ role: 'assistant', content: 'so', reasoning: 'think more still yet' });
  });

  it('takes a refusal as the text that it is', async () => {
    const { response } = await replayText(delta({ refusal: 'I can' }) + delta({ refusal: 'not.' }) + delta({}, 'stop'));
    expect(response.message.content).toBe('I cannot.');
  });

  it.each([
    ['stop', 'stop'],
    ['end_turn', 'stop'],
    ['STOP', 'stop'],
    ['eos', 'stop'],
    ['length', 'length'],
    ['MAX_TOKENS', 'length'],
    ['model_length', 'length'],
    ['content_filter', 'content_filter'],
    ['SAFETY', 'content_filter'],
    ['something_new', 'other'],
  ])('maps the finish reason %s to %s', async (wire, expected) => {
    expect((await replayText(delta({ content: 'a' }, wire))).response.finishReason).toBe(expected);
    expect((await replayCall(completion({ content: 'a' }, wire))).finishReason).toBe(expected);
  });

  it.each(['tool_calls', 'function_call', 'tool_use'])('refuses %s without a call', async (wire) => {
    await expect(replayText(delta({ content: 'a' }, wire))).rejects.toMatchObject({ retryable: true });
    await expect(replayCall(completion({ content: 'a' }, wire))).rejects.toMatchObject({ retryable: true });
  });

  it.each(['tool_calls', 'function_call', 'tool_use', 'something_new'])(
    'takes the finish reason %s as tool_calls where there are calls',
    async (wire) => {
      const { response } = await replayText(callDelta(0, { id: 'a', name: 'f', args: '{}' }) + delta({}, wire));
      expect(response.finishReason).toBe('tool_calls');
    },
  );

  it('answers a request for a stream that comes back as one body of JSON', async () => {
    const body = new TextEncoder().encode(JSON.stringify(completion({ content: 'whole' }, 'stop', usage)));
    const { chunks, response } = await replay([], { fetch: fetchOf(cutAt(body, [10, 20]), 'application/json') });
    expect(chunks).toEqual([{ type: 'text', text: 'whole' }]);
    expect(response).toMatchObject({ message: { content: 'whole' }, usage: counted });
  });
});

describe('call and stream', () => {
  const toolCalls = [wireCall('a', 'f', '{"n":1}'), wireCall('b', 'g', '')];
  const answers: readonly (readonly [string, object, string])[] = [
    ['a text', { content: 'Hi' }, 'stop'],
    ['a text cut off', { content: 'Hi' }, 'length'],
    ['text, reasoning and calls', { content: 'Hi', reasoning_content: 'Hm', tool_calls: toolCalls }, 'tool_calls'],
    ['calls only', { content: null, tool_calls: toolCalls }, 'tool_calls'],
    ['calls beside an empty text', { content: '', tool_calls: toolCalls }, 'tool_calls'],
    ['nothing', { content: '' }, 'stop'],
    ['a refusal', { content: null, refusal: 'No.' }, 'stop'],
  ];

  it.each(answers)('S1-41 S0-64 give the same response for %s', async (_, message, finish) => {
    const whole = await replayCall(completion(message, finish, usage));
    const pieces = Object.entries(message).map(([member, value]) => delta({ [member]: indexed(value) }));
    const streamed = await replayText(
      pieces.join('') + delta({}, finish) + event({ id: 'cmpl-1', choices: [], usage }) + done,
    );
    expect(streamed.response).toEqual(whole);
    expect(streamed.response.usage).toEqual(counted);
  });

  it('a text-less answer with calls has content null, one without has an empty text', async () => {
    const withCalls: LLMResponse = await replayCall(completion({ content: '', tool_calls: toolCalls }));
    expect(withCalls.message.content).toBeNull();
    expect((await replayCall(completion({ content: null }))).message.content).toBe('');
  });

  function indexed(value: unknown): unknown {
    return Array.isArray(value) ? value.map((item, index) => ({ index, ...item })) : value;
  }
});

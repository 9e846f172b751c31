import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { LLMResponse } from 'millrace';
import { cutAt, fetchOf, foldChunks, replay, replayCall, replayText } from './piecewise.ts';
import { completion, delta, done, event } from './raw-server.ts';

const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };
const counted = { promptTokens: 3, completionTokens: 4, totalTokens: 7 };

function call(id: string, name: string, args: string) {
  return { id, type: 'function', function: { name, arguments: args } };
}

function fragment(index: number | undefined, parts: { id?: string; name?: string; args?: string }): string {
  const { id, name, args } = parts;
  const called = { ...(name === undefined ? {} : { name }), ...(args === undefined ? {} : { arguments: args }) };
  return delta({
    tool_calls: [{ ...(index === undefined ? {} : { index }), ...(id === undefined ? {} : { id }), function: called }],
  });
}

const endsWithCalls = delta({}, 'tool_calls') + done;

async function callsOf(stream: string): Promise<unknown> {
  const { chunks, response } = await replayText(stream + endsWithCalls);
  const folded = foldChunks(chunks).calls.map(({ id, name, arguments: args }) => call(id, name, args));
  expect(folded).toEqual(response.toolCalls);
  return response.toolCalls;
}

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
    const calls = fragment(0, { id: 'a', name: 'look', args: '{"at":' }) + fragment(0, { args: '1}' });
    const { response } = await replayText(calls + done);
    expect(response).toMatchObject({ toolCalls: [call('a', 'look', '{"at":1}')], finishReason: 'tool_calls' });
    const none = await replayText(fragment(0, { id: 'a', name: 'look' }) + done);
    expect(none.response).toMatchObject({ toolCalls: [call('a', 'look', '')], finishReason: 'tool_calls' });
  });

  it.each([
    ['nothing', done],
    ['an empty text', delta({ content: '' }) + done],
    ['a call that is cut off', fragment(0, { id: 'a', name: 'look', args: '{"at":' }) + done],
    ['a text and a call that is cut off', delta({ content: 'a' }) + fragment(0, { name: 'look', args: '{' }) + done],
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
    ['tool_calls', 'tool_calls'],
    ['function_call', 'tool_calls'],
    ['tool_use', 'tool_calls'],
    ['content_filter', 'content_filter'],
    ['SAFETY', 'content_filter'],
    ['something_new', 'stop'],
  ])('maps the finish reason %s to %s', async (wire, expected) => {
    expect((await replayText(delta({ content: 'a' }, wire))).response.finishReason).toBe(expected);
    expect((await replayCall(completion({ content: 'a' }, wire))).finishReason).toBe(expected);
  });

  it('takes an unknown finish reason as tool_calls where there are calls', async () => {
    const { response } = await replayText(fragment(0, { id: 'a', name: 'f', args: '{}' }) + delta({}, 'something_new'));
    expect(response.finishReason).toBe('tool_calls');
  });

  it('answers a request for a stream that comes back as one body of JSON', async () => {
    const body = new TextEncoder().encode(JSON.stringify(completion({ content: 'whole' }, 'stop', usage)));
    const { chunks, response } = await replay([], { fetch: fetchOf(cutAt(body, [10, 20]), 'application/json') });
    expect(chunks).toEqual([{ type: 'text', text: 'whole' }]);
    expect(response).toMatchObject({ message: { content: 'whole' }, usage: counted });
  });
});

describe('tool calls in a stream', () => {
  it('S4-17 come as fragments by their position, whatever the first index of the wire', async () => {
    const { chunks } = await replayText(
      fragment(1, { id: 'a', name: 'f', args: '' }) +
        fragment(1, { args: '{"x"' }) +
        fragment(1, { args: ':1}' }) +
        endsWithCalls,
    );
    expect(chunks).toEqual([
      { type: 'tool-call', index: 0, id: 'a', name: 'f' },
      { type: 'tool-call', index: 0, arguments: '{"x"' },
      { type: 'tool-call', index: 0, arguments: ':1}' },
    ]);
  });

  it('with arguments in one piece, and one character at a time', async () => {
    const args = '{"city":"Grünwald 🌲","days":[1,2]}';
    const whole = fragment(0, { id: 'a', name: 'f', args });
    const letters =
      fragment(0, { id: 'a', name: 'f', args: '' }) + [...args].map((args) => fragment(0, { args })).join('');
    expect(await callsOf(whole)).toEqual([call('a', 'f', args)]);
    expect(await callsOf(letters)).toEqual([call('a', 'f', args)]);
  });

  it('with parallel calls interleaved, indices that leave gaps, and several in one chunk', async () => {
    const stream = [
      fragment(5, { id: 'a', name: 'f', args: '{"n":' }),
      fragment(2, { id: 'b', name: 'g', args: '{"m":' }),
      delta({
        tool_calls: [
          { index: 5, function: { arguments: '1}' } },
          { index: 2, function: { arguments: '2}' } },
        ],
      }),
    ];
    expect(await callsOf(stream.join(''))).toEqual([call('a', 'f', '{"n":1}'), call('b', 'g', '{"m":2}')]);
  });

  it('with the id repeated, and empty ids and names in later fragments', async () => {
    const stream = [
      fragment(0, { id: 'a', name: 'f', args: '{"n"' }),
      fragment(0, { id: 'a', name: '', args: ':' }),
      fragment(0, { id: '', name: '', args: '1' }),
      fragment(0, { id: 'a', name: 'f', args: '}' }),
    ];
    expect(await callsOf(stream.join(''))).toEqual([call('a', 'f', '{"n":1}')]);
  });

  it('with another id in each fragment, which names no new call', async () => {
    const stream = [
      fragment(0, { id: 'a', name: 'f' }),
      fragment(0, { id: 'b', args: '{' }),
      fragment(0, { id: 'c', args: '}' }),
    ];
    expect(await callsOf(stream.join(''))).toEqual([call('a', 'f', '{}')]);
  });

  it('without an index: whole calls, fragments without an id, and interleaved ones known by their id', async () => {
    const whole = [
      fragment(undefined, { id: 'a', name: 'f', args: '{}' }),
      fragment(undefined, { id: 'b', name: 'f', args: '{}' }),
    ];
    expect(await callsOf(whole.join(''))).toEqual([call('a', 'f', '{}'), call('b', 'f', '{}')]);
    const pieces = [fragment(undefined, { id: 'a', name: 'f', args: '{' }), fragment(undefined, { args: '}' })];
    expect(await callsOf(pieces.join(''))).toEqual([call('a', 'f', '{}')]);
    const interleaved = [
      fragment(undefined, { id: 'a', name: 'f', args: '{"n":' }),
      fragment(undefined, { id: 'b', name: 'g', args: '{"m":' }),
      fragment(undefined, { id: 'a', args: '1}' }),
      fragment(undefined, { id: 'b', args: '2}' }),
    ];
    expect(await callsOf(interleaved.join(''))).toEqual([call('a', 'f', '{"n":1}'), call('b', 'g', '{"m":2}')]);
  });

  it('with index 0 for all: told apart by their ids, or without ids by complete arguments', async () => {
    const ids = [fragment(0, { id: 'a', name: 'f', args: '{}' }), fragment(0, { id: 'b', name: 'g', args: '{}' })];
    expect(await callsOf(ids.join(''))).toEqual([call('a', 'f', '{}'), call('b', 'g', '{}')]);
    const none = [fragment(0, { id: '', name: 'f', args: '{}' }), fragment(0, { id: '', name: 'f', args: '{"n":1}' })];
    expect(await callsOf(none.join(''))).toEqual([call('', 'f', '{}'), call('', 'f', '{"n":1}')]);
  });

  it('with arguments as an object, no arguments at all, and the old function_call', async () => {
    const object = delta({ tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: { n: 1 } } }] });
    expect(await callsOf(object)).toEqual([call('a', 'f', '{"n":1}')]);
    expect(await callsOf(fragment(0, { id: 'a', name: 'f' }))).toEqual([call('a', 'f', '')]);
    const old =
      delta({ function_call: { name: 'f', arguments: '{"n"' } }) + delta({ function_call: { arguments: ':1}' } });
    expect(await callsOf(old)).toEqual([call('', 'f', '{"n":1}')]);
  });

  it('put together the calls that were taken apart, however their fragments are cut and mixed', async () => {
    const args = fc
      .dictionary(fc.string(), fc.oneof(fc.string(), fc.integer(), fc.constant(null)))
      .map((value) => JSON.stringify(value));
    const aCall = fc.record({
      name: fc.stringMatching(/^[a-z_]{1,12}$/),
      args,
      cuts: fc.array(fc.nat(40), { maxLength: 6 }),
    });
    const calls = fc
      .uniqueArray(fc.nat(30), { minLength: 1, maxLength: 4 })
      .chain((indices) => fc.tuple(...indices.map((index) => aCall.map((one) => ({ index, ...one })))));
    await fc.assert(
      fc.asyncProperty(calls, fc.infiniteStream(fc.nat(1_000)), async (made, random) => {
        const queues = made.map(({ index, name, args, cuts }) => [
          fragment(index, { id: `id-${index}`, name, args: '' }),
          ...textCuts(args, cuts).map((piece) => fragment(index, { args: piece })),
        ]);
        const stream = queues.map((queue) => queue.shift()).join('') + mix(queues, () => Number(random.next().value));
        expect(await callsOf(stream)).toEqual(made.map(({ index, name, args }) => call(`id-${index}`, name, args)));
      }),
      { numRuns: 60 },
    );
  });
});

function textCuts(text: string, places: readonly number[]): readonly string[] {
  const bounds = [0, ...[...places].map((place) => Math.min(place, text.length)).sort((a, b) => a - b), text.length];
  return bounds.slice(1).map((end, index) => text.slice(bounds[index], end));
}

function mix(queues: readonly string[][], random: () => number): string {
  let mixed = '';
  for (
    let open = queues.filter(({ length }) => length > 0);
    open.length > 0;
    open = queues.filter(({ length }) => length > 0)
  ) {
    mixed += open[random() % open.length]?.shift() ?? '';
  }
  return mixed;
}

describe('call and stream', () => {
  const toolCalls = [call('a', 'f', '{"n":1}'), call('b', 'g', '')];
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

import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { agent, tool } from 'millrace';
import { createProvider } from 'millrace/ai-sdk';
import { lastValueFrom, toArray } from 'rxjs';
import { type RawServer, sendStream, startRawServer } from '../raw-server.ts';
import { anthropic, type ClaudeEvent, claudeBlock, claudeStream } from './vendor-wires.ts';

let server: RawServer;

beforeEach(async () => {
  server = await startRawServer();
});

afterEach(() => server.close());

const call = (index: number, id: string, args: string) =>
  claudeBlock(index, { type: 'tool_use', id, name: 'pay', input: {} }, [
    { type: 'input_json_delta', partial_json: args },
  ]);
const text = (index: number, ...pieces: string[]) =>
  claudeBlock(
    index,
    { type: 'text', text: '' },
    pieces.map((piece) => ({ type: 'text_delta', text: piece })),
  );
const thinking = (index: number, ...pieces: string[]) =>
  claudeBlock(
    index,
    { type: 'thinking', thinking: '' },
    pieces.map((piece) => ({ type: 'thinking_delta', thinking: piece })),
  );

/** The payments of a turn whose first answer has these calls. */
async function paid(calls: readonly ClaudeEvent[]): Promise<readonly unknown[]> {
  const ledger: unknown[] = [];
  const pay = tool({
    name: 'pay',
    description: 'Pays.',
    parameters: { type: 'object', properties: { to: { type: 'string' }, sum: { type: 'number' } } },
    execute: (args) => {
      ledger.push(args);
      return 'paid';
    },
  });
  let asked = 0;
  server.answer((exchange) =>
    sendStream(exchange, asked++ === 0 ? claudeStream(calls, 'tool_use') : anthropic.text('Done.')),
  );
  const provider = await createProvider(anthropic.model, { apiKey: 'k', baseUrl: server.baseUrl });
  const result = await agent({ name: 'a', provider, tools: [pay], retry: null })
    .startTurn('Pay.')
    .result();
  expect(result.text).toBe('Done.');
  return ledger;
}

describe('M-03 the same call twice in one answer', () => {
  it.each<[string, string]>([
    ['to the letter', '{"to":"Ada","sum":5}'],
    ['with other blanks', '{ "to": "Ada",  "sum": 5 }\n'],
    ['with its members in another order', '{"sum":5,"to":"Ada"}'],
  ])('%s is paid once', async (_, again) => {
    const args = '{"to":"Ada","sum":5}';
    expect(await paid([...call(0, 'c1', args), ...call(1, 'c1', again), ...call(2, 'c1', again)])).toEqual([
      { to: 'Ada', sum: 5 },
    ]);
  });

  it('without arguments is made once', async () => {
    expect(await paid([...call(0, 'c1', ''), ...call(1, 'c1', '{}')])).toHaveLength(1);
  });

  it('with another id, or with other arguments, is another call', async () => {
    const other = [...call(0, 'c1', '{"sum":5}'), ...call(1, 'c2', '{"sum":5}'), ...call(2, 'c1', '{"sum":6}')];
    expect(await paid(other)).toEqual([{ sum: 5 }, { sum: 5 }, { sum: 6 }]);
  });
});

async function chunksOf(blocks: readonly ClaudeEvent[]) {
  server.answer((exchange) => sendStream(exchange, claudeStream(blocks, 'end_turn')));
  const provider = await createProvider(anthropic.model, { apiKey: 'k', baseUrl: server.baseUrl });
  const chunks = await lastValueFrom(provider.stream({ messages: [{ role: 'user', content: 'Hi' }] }).pipe(toArray()));
  const shown = (type: string) =>
    chunks.flatMap((chunk) => (chunk.type === type && 'text' in chunk ? [chunk.text] : [])).join('');
  const last = chunks.at(-1);
  if (last?.type !== 'done') throw new Error('The stream did not end with done.');
  const { message } = last.response;
  return {
    shown: [shown('reasoning'), shown('text')],
    kept: ['reasoning' in message ? message.reasoning : '', message.content],
  };
}

describe('text and reasoning', () => {
  it('M-22 that come again, whole, behind their pieces are not doubled', async () => {
    const pieces = [...thinking(0, 'H', 'm.'), ...text(1, 'Hel', 'lo.')];
    const both = ['Hm.', 'Hello.'];
    expect(await chunksOf([...pieces, ...thinking(2, 'Hm.'), ...text(3, 'Hello.')])).toEqual({
      shown: both,
      kept: both,
    });
    expect(await chunksOf([...pieces, ...text(2, 'Hel', 'lo.'), ...text(3, 'Hello.')])).toEqual({
      shown: both,
      kept: both,
    });
  });

  it.each([
    ['longer', 'Hello. And more.', 'Hello.Hello. And more.'],
    ['shorter', 'Hel', 'Hello.Hel'],
    ['another', 'Bye.', 'Hello.Bye.'],
  ])('M-22 that is %s is more text', async (_, more, whole) => {
    const { shown, kept } = await chunksOf([...text(0, 'Hel', 'lo.'), ...text(1, ...more)]);
    expect([shown[1], kept[1]]).toEqual([whole, whole]);
  });
});

import { describe, expect, it } from '@jest/globals';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import { SessionEvents } from 'millrace/internals';

const progress = (text: string): JSONRPCMessage => ({ jsonrpc: '2.0', method: 'n', params: { text } });
const answer: JSONRPCMessage = { jsonrpc: '2.0', id: 1, result: {} };

async function replayed(events: SessionEvents, lastId: string): Promise<readonly JSONRPCMessage[]> {
  const sent: JSONRPCMessage[] = [];
  await events.replayEventsAfter(lastId, { send: async (_id, message) => void sent.push(message) });
  return sent;
}

describe('SessionEvents', () => {
  it('gives what came on the same stream behind an event', async () => {
    const events = new SessionEvents();
    const first = await events.storeEvent('a_b-c', progress('1'));
    await events.storeEvent('other', progress('2'));
    await events.storeEvent('a_b-c', progress('3'));
    await events.storeEvent('a_b-c', answer);
    expect(await events.getStreamIdForEventId(first)).toBe('a_b-c');
    expect(await replayed(events, first)).toEqual([progress('3'), answer]);
  });

  it('knows no stream of an event behind which nothing comes, nor of what is no event', async () => {
    const events = new SessionEvents();
    const last = await events.storeEvent('a', answer);
    expect(await events.getStreamIdForEventId(last)).toBeUndefined();
    expect(await events.getStreamIdForEventId('nonsense')).toBeUndefined();
    expect(await replayed(events, 'nonsense')).toEqual([]);
  });

  it('holds the newest only', async () => {
    const events = new SessionEvents();
    const first = await events.storeEvent('a', progress('first'));
    for (let count = 0; count < 1_000; count++) await events.storeEvent('a', progress(String(count)));
    expect(await replayed(events, first)).toHaveLength(1_000);
    await events.storeEvent('a', progress('x'.repeat(17_000_000)));
    expect(await replayed(events, first)).toHaveLength(1);
  });
});

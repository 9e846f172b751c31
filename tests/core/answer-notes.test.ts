import { describe, expect, it } from '@jest/globals';
import type { AssistantMessage } from 'millrace';
import { AgentLoop } from 'millrace/internals';

async function responseEvent(metadata: AssistantMessage['metadata']): Promise<object | undefined> {
  const message = { role: 'assistant' as const, content: 'Hi.', ...(metadata && { metadata }) };
  const llmProvider = { call: async () => ({ message, finishReason: 'stop' as const }) };
  const turn = new AgentLoop({ agentId: 'a', llmProvider }).startTurn([{ role: 'user', content: 'Hi' }]);
  let found: object | undefined;
  for await (const event of turn) if (event.kind === 'internal:llm-response') found = event;
  return found;
}

describe('what internal:llm-response says of an answer', () => {
  it('are its sources and the calls of the vendor', async () => {
    const sources = [
      { id: 's1', sourceType: 'url', url: 'https://a.example/', title: 'A' },
      { id: 's2', sourceType: 'document', mediaType: 'application/pdf', title: 'B' },
    ];
    const vendorCalls = [
      { id: 'v1', name: 'web_search', arguments: '{}' },
      { id: 'v2', name: 'web_search', arguments: '{}', failed: true },
    ];
    expect(await responseEvent({ sources, vendorCalls })).toMatchObject({ sources, vendorCalls });
  });

  it.each([
    ['no metadata', undefined],
    ['metadata of others', { trace: 'x' }],
    [
      'entries of another form',
      { sources: [null, { id: 's', sourceType: 'url', url: 5 }], vendorCalls: [{ id: 'v' }] },
    ],
    ['no arrays', { sources: 'https://a.example/', vendorCalls: {} }],
  ])('is nothing of %s', async (_, metadata) => {
    const event = await responseEvent(metadata);
    expect(event).toMatchObject({ text: 'Hi.' });
    expect(event).not.toHaveProperty('sources');
    expect(event).not.toHaveProperty('vendorCalls');
  });
});

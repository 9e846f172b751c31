import { afterEach, beforeEach } from '@jest/globals';
import type { LLMCallParams, Message } from 'millrace';
import { type CreateProviderOptions, createProvider } from 'millrace/ai-sdk';
import { lastValueFrom } from 'rxjs';
import { type Exchange, type RawServer, sendStream, startRawServer } from '../raw-server.ts';
import type { VendorWire } from './vendor-wires.ts';

/** Starts a server before each test. `requestOf`: the request that a call comes to on the vendor's wire. */
export function goldenRequests() {
  let server: RawServer;

  beforeEach(async () => {
    server = await startRawServer();
  });

  afterEach(() => server.close());

  const requestOf = async (
    wire: VendorWire,
    params: LLMCallParams,
    options: CreateProviderOptions = {},
  ): Promise<Exchange> => {
    const provider = await createProvider(wire.model, { apiKey: 'key-of-a-test', baseUrl: server.baseUrl, ...options });
    const [exchange] = await Promise.all([
      server.next().then((request) => {
        sendStream(request, wire.text('ok'));
        return request;
      }),
      lastValueFrom(provider.stream(params)),
    ]);
    return exchange;
  };
  return { requestOf, server: () => server };
}

export const pixel = 'iVBORw0KGgo=';

export const history: readonly Message[] = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'How is Oslo?' },
  {
    role: 'assistant',
    content: 'I look.',
    toolCalls: [
      { id: 'a', type: 'function', function: { name: 'weather', arguments: '{"city":"Oslo"}' } },
      { id: 'b', type: 'function', function: { name: 'camera', arguments: '' } },
      { id: 'c', type: 'function', function: { name: 'radar', arguments: '{"km":5}' } },
    ],
  },
  { role: 'tool', toolCallId: 'a', content: '{"celsius":4,"wind":{"ms":2.5}}' },
  {
    role: 'tool',
    toolCallId: 'b',
    content: [
      { type: 'text', text: 'Two views:' },
      { type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } },
      { type: 'text', text: 'both cloudy' },
      { type: 'file', file: { filename: 'log.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' } },
    ],
  },
  { role: 'tool', toolCallId: 'c', content: 'out of order', status: 'error' },
];

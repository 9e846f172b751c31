import type { StreamResponse } from '@a2a-js/sdk';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { describe, expect, it } from '@jest/globals';
import { type A2AServerOptions, apiKeyAuth } from '../../../src/a2a/index.ts';
import { answerOf, key, message, serverBench } from './test-server.ts';

const on = serverBench();

async function served(more: Partial<A2AServerOptions> = {}) {
  const auth = apiKeyAuth({ keys: [{ id: 'alice', key }] });
  const agent = on.echo([{ text: ['Hel', 'lo.'] }, { text: 'Again.' }]);
  const { grpcAddress = '', cardUrl } = await on.serve({ agent, auth, grpc: { port: 0 }, ...more });
  const card = await answerOf(fetch(cardUrl, { headers: { 'a2a-version': '1.0' } }));
  return { grpcAddress, card };
}

describe('gRPC', () => {
  it('serves callers that are known, and streams', async () => {
    const { grpcAddress, card } = await served();
    expect(card.supportedInterfaces).toContainEqual({
      url: grpcAddress,
      protocolBinding: 'GRPC',
      protocolVersion: '1.0',
    });
    const transport = await new GrpcTransportFactory().create(grpcAddress, card);
    const serviceParameters = { 'x-api-key': key, 'a2a-version': '1.0.1' };
    const kinds: string[] = [];
    const stream: AsyncGenerator<StreamResponse> = transport.sendMessageStream(message('Hi'), { serviceParameters });
    for await (const { payload } of stream) kinds.push(payload?.$case ?? '');
    expect([kinds[0], kinds.at(-1)]).toEqual(['task', 'statusUpdate']);
    expect(await transport.sendMessage(message('Hi'), { serviceParameters })).toMatchObject({ status: { state: 3 } });
  });

  it('turns strangers away', async () => {
    const { grpcAddress, card } = await served();
    const transport = await new GrpcTransportFactory().create(grpcAddress, card);
    await expect(transport.sendMessage(message('Hi'), { serviceParameters: { 'a2a-version': '1.0' } })).rejects.toThrow(
      /Authentication is required/,
    );
  });

  it('counts streams that failed off again', async () => {
    const { grpcAddress, card } = await served({ maxStreams: 1 });
    const transport = await new GrpcTransportFactory().create(grpcAddress, card);
    const serviceParameters = { 'x-api-key': key, 'a2a-version': '1.0' };
    for (const _ of [1, 2, 3]) {
      const failing = transport.resubscribeTask({ tenant: '', id: 'unknown' }, { serviceParameters });
      await expect(failing.next()).rejects.toThrow(/no such task/);
    }
    for await (const _ of transport.sendMessageStream(message('Hi'), { serviceParameters }));
  });
});

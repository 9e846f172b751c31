import { LegacyA2AService } from '@a2a-js/sdk/compat/v0_3/server/grpc';
import { credentials, makeGenericClientConstructor, status } from '@grpc/grpc-js';
import { describe, expect, it } from '@jest/globals';
import { apiKeyAuth } from 'millrace/a2a';
import { reach } from '../../security/reach.ts';
import { answerOf, clientOf, key, message, rpc, serverBench, wireMessage } from './test-server.ts';

const on = serverBench();

const cardOf = (url: string, headers: Readonly<Record<string, string>> = {}) =>
  answerOf(fetch(`${url}/.well-known/agent-card.json`, { headers }));

describe('the card for clients of both versions', () => {
  it('has what clients of 1.0 read beside what those of 0.3 read', async () => {
    const auth = apiKeyAuth({ keys: [{ id: 'alice', key }] });
    const { url } = await on.serve({ agent: on.echo([]), auth });
    const [card, both] = [await cardOf(url, { 'a2a-version': '1.0' }), await cardOf(url)];
    expect(card.capabilities.extendedAgentCard).toBe(true);
    expect(card.securityRequirements).toHaveLength(1);
    expect(both).toMatchObject({
      protocolVersion: '0.3',
      supportsAuthenticatedExtendedCard: true,
      security: [{ apiKey: [] }],
      capabilities: { streaming: true, extendedAgentCard: true },
      securityRequirements: card.securityRequirements,
    });
    expect(both.supportedInterfaces.map(({ protocolVersion }: Record<string, string>) => protocolVersion)).toEqual(
      card.supportedInterfaces.map(({ protocolVersion }: Record<string, string>) => protocolVersion),
    );
  });

  it('says that there is no extended card where there is none', async () => {
    const { url } = await on.serve({ agent: on.echo([]) });
    const both = await cardOf(url);
    expect(both.capabilities.extendedAgentCard).toBe(false);
    expect(both).not.toHaveProperty('securityRequirements');
  });
});

describe('a server without A2A 0.3', () => {
  it('serves 1.0, and says of no address that it is one of 0.3', async () => {
    const { url } = await on.serve({ agent: on.echo([{ text: 'Hello.' }, { text: 'Hello.' }]), legacy: false });
    for (const headers of [{}, { 'a2a-version': '0.3' }, { 'a2a-version': '1.0' }]) {
      const card = await cardOf(url, headers);
      expect(card).not.toHaveProperty('protocolVersion');
      const versions = card.supportedInterfaces.map((each: Record<string, string>) => each['protocolVersion']);
      expect(versions).toEqual(['1.0', '1.0']);
    }
    for (const binding of ['JSONRPC', 'HTTP+JSON'] as const) {
      const client = await clientOf(url, { binding });
      expect(await client.sendMessage(message('Hi'))).toMatchObject({ status: { state: 3 } });
    }
  });

  it('refuses requests of 0.3 and those without a version, and starts nothing', async () => {
    const { url } = await on.serve({ agent: on.echo([]), legacy: false });
    const params = {
      message: { kind: 'message', messageId: 'm', role: 'user', parts: [{ kind: 'text', text: 'Hi' }] },
    };
    for (const version of ['', '0.3']) {
      const { error } = await answerOf(rpc(url, 'message/send', params, { 'a2a-version': version }));
      expect(error).toMatchObject({ code: -32009, message: expect.stringContaining('1.0') });
      const headers = { 'content-type': 'application/json', ...(version && { 'a2a-version': version }) };
      const body = JSON.stringify(wireMessage('Hi', 'm'));
      const rest = (path: string) => fetch(`${url}/a2a/rest${path}`, { method: 'POST', headers, body });
      expect((await rest('/v1/message:send')).status).toBeGreaterThanOrEqual(400);
      expect((await rest('/message:send')).status).toBe(400);
    }
    const { result } = await answerOf(rpc(url, 'ListTasks', {}));
    expect(result.tasks).toEqual([]);
  });

  it('has no service of 0.3 over gRPC, and serves 1.0 there', async () => {
    const agent = on.echo([{ text: 'Hello.' }]);
    const { url, grpcAddress = '' } = await on.serve({ agent, legacy: false, grpc: { port: 0 } });
    const card = await cardOf(url);
    expect(card.supportedInterfaces.map((each: Record<string, string>) => each['protocolVersion'])).toEqual([
      '1.0',
      '1.0',
      '1.0',
    ]);
    const { client, options } = await reach(url, ['GRPC', '1.0']);
    expect(await client.sendMessage(message('Hi'), options)).toMatchObject({ status: { state: 3 } });
    const Client = makeGenericClientConstructor(LegacyA2AService, 'a2a.v1.A2AService');
    const legacy = new Client(grpcAddress, credentials.createInsecure());
    on.after(() => legacy.close());
    const { path, requestSerialize, responseDeserialize } = LegacyA2AService.getTask;
    const name = { name: 'tasks/x', historyLength: 0 };
    const refused = new Promise((_, reject) => {
      legacy.makeUnaryRequest(path, requestSerialize, responseDeserialize, name, reject);
    });
    await expect(refused).rejects.toMatchObject({ code: status.UNIMPLEMENTED });
    await expect(
      client.listTasks(
        { tenant: '', contextId: '', status: 0, pageToken: '', statusTimestampAfter: undefined },
        options,
      ),
    ).resolves.toMatchObject({ totalSize: 1 });
  });

  it('is chosen with true or false', async () => {
    const options = Object({ agent: on.echo([]), legacy: '0.3' });
    await expect(on.serve(options)).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringContaining('legacy must be true or false, not "0.3"'),
    });
  });
});

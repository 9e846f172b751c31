import { describe, expect, it } from '@jest/globals';
import { agent, eagerTools, LocalToolProvider, tool } from 'millrace';
import { scriptedLLM } from 'millrace/testing';
import { reach } from './reach.ts';
import { servedAgent } from './served-agent.ts';

// JSON has no number that is not finite, but JSON.parse makes one of these; written again, it is null.
const infinite = ['1e999', '-1E+0400', '9'.repeat(400), '0.5e310'];

describe('arguments of a model with a number that is not finite', () => {
  const pay = (paid: unknown[], needsApproval: boolean) =>
    tool({
      name: 'pay',
      description: 'Pays.',
      parameters: { type: 'object', properties: { amount: { type: 'number' } } },
      needsApproval,
      readOnly: !needsApproval,
      execute: (args) => {
        paid.push(args);
        return 'paid';
      },
    });

  it.each(infinite)('are refused before anybody is asked to approve null in its place: %.8s', async (number) => {
    const paid: unknown[] = [];
    const provider = scriptedLLM([
      { toolCalls: [{ name: 'pay', arguments: `{"to":"bob","amount":${number}}` }] },
      { toolCalls: [{ name: 'pay', arguments: '{"to":"bob","amount":5e300}' }] },
    ]);
    const { questions, messages } = await agent({ provider, tools: [pay(paid, true)] }).run('Go.');
    expect(questions?.map(({ data }) => data)).toEqual([{ to: 'bob', amount: 5e300 }]);
    const told = messages.flatMap(({ role, content }) => (role === 'tool' ? [content] : []));
    expect(told[0]).toContain('it has a number beyond 1.8e308');
    expect(paid).toEqual([]);
  });

  it('start no tool early', async () => {
    const paid: unknown[] = [];
    const { toolProvider, extension } = eagerTools(new LocalToolProvider([pay(paid, false)]));
    const provider = scriptedLLM([{ toolCalls: [{ name: 'pay', arguments: '{"amount":1e999}' }] }, { text: 'Well.' }]);
    const { text } = await agent({ provider, toolProviders: [toolProvider], extensions: [extension] }).run('Go.');
    expect([text, paid]).toEqual(['Well.', []]);
  });

  it('are refused as a typed value, and the model may try again', async () => {
    const provider = scriptedLLM([
      { toolCalls: [{ name: '__finish__', arguments: '{"amount":1e999}' }] },
      { toolCalls: [{ name: '__finish__', arguments: '{"amount":1}' }] },
    ]);
    const { value } = await agent({ provider, outputSchema: { type: 'object' } }).run('Go.');
    expect(value).toEqual({ amount: 1 });
  });
});

describe('a message of a client with a number that is not finite', () => {
  const server = servedAgent();

  const old = '{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"data","data":{"n":1e999}}]}';
  const now = '{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"metadata":{"n":[-1e999]}}';
  const rpc = (method: string, message: string) =>
    `{"jsonrpc":"2.0","id":1,"method":"${method}","params":{"message":${message}}}`;
  const refusal = 'The message has a number that is not finite.';

  it.each([
    ['JSONRPC', '1.0', '/a2a/jsonrpc', rpc('SendMessage', now), 200],
    ['JSONRPC', '0.3', '/a2a/jsonrpc', rpc('message/send', old), 200],
    ['HTTP+JSON', '1.0', '/a2a/rest/message:send', `{"message":${now}}`, 400],
  ])('is the fault of its client, and starts no task: %s %s', async (_binding, version, path, body, status) => {
    const headers = { 'content-type': 'application/json', 'a2a-version': version };
    const response = await fetch(new URL(path, server.url), { method: 'POST', headers, body });
    expect(response.status).toBe(status);
    expect(await response.text()).toContain(refusal);
    expect(server.store.list()).toEqual([]);
  });

  it('is the fault of its client, and starts no task: GRPC 1.0', async () => {
    const { client, options } = await reach(server.url, ['GRPC', '1.0']);
    const part = { metadata: undefined, filename: '', mediaType: '' };
    const content = { $case: 'data' as const, value: { n: Number.NaN } };
    const message = { messageId: 'm', role: 1, contextId: '', taskId: '', extensions: [], referenceTaskIds: [] };
    const sent = client.sendMessage(
      {
        tenant: '',
        message: { ...message, parts: [{ ...part, content }], metadata: undefined },
        configuration: undefined,
        metadata: undefined,
      },
      options,
    );
    await expect(sent).rejects.toThrow(/not finite|INVALID_ARGUMENT/);
    expect(server.store.list()).toEqual([]);
  });
});

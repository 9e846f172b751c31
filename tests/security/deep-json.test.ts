import { describe, expect, it } from '@jest/globals';
import { agent, tool } from 'millrace';
import { scriptedLLM } from 'millrace/testing';
import { reach } from './reach.ts';
import { servedAgent } from './served-agent.ts';

/** JSON that is read at any depth, but cannot be written at this one. */
const nested = (levels: number) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`;

describe('JSON of a model that nests too deep', () => {
  const note = tool({
    name: 'note',
    description: 'Notes something.',
    parameters: { type: 'object' },
    execute: () => 'noted',
  });
  const call = (name: string, levels: number) => ({ toolCalls: [{ name, arguments: nested(levels) }] });

  it.each([501, 20_000])('is refused as arguments, and the model reads why: %d levels', async (levels) => {
    const provider = scriptedLLM([call('note', 500), call('note', levels), { text: 'Well.' }]);
    const { text, messages } = await agent({ provider, tools: [note] }).run('Go.');
    expect(text).toBe('Well.');
    const told = messages.flatMap(({ role, content }) => (role === 'tool' ? [content] : []));
    expect(told).toEqual(['noted', expect.stringContaining('it nests deeper than 500 levels')]);
  });

  it('is refused as a typed value, and the model may try again', async () => {
    const provider = scriptedLLM([
      call('__finish__', 20_000),
      { toolCalls: [{ name: '__finish__', arguments: '{}' }] },
    ]);
    const { value } = await agent({ provider, outputSchema: { type: 'object' } }).run('Go.');
    expect(value).toEqual({});
  });
});

describe('a request that nests too deep', () => {
  const server = servedAgent();

  const old = (member: string) =>
    `{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"x"}],${member}}`;
  const now = (member: string) => `{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],${member}}`;
  const rpc = (method: string, message: string) =>
    `{"jsonrpc":"2.0","id":1,"method":"${method}","params":{"message":${message}}}`;
  it.each([
    ['JSONRPC', '1.0', '/a2a/jsonrpc', rpc('SendMessage', now(`"metadata":${nested(20_000)}`))],
    ['JSONRPC', '0.3', '/a2a/jsonrpc', rpc('message/send', old(`"metadata":${nested(20_000)}`))],
    ['HTTP+JSON', '1.0', '/a2a/rest/message:send', `{"message":${now(`"metadata":${nested(20_000)}`)}}`],
    ['HTTP+JSON', '0.3', '/a2a/rest/v1/message:send', `{"message":${old(`"other":${nested(20_000)}`)}}`],
  ])('H-19 is the fault of its client: %s %s', async (_binding, version, path, body) => {
    const headers = { 'content-type': 'application/json', 'a2a-version': version };
    const response = await fetch(new URL(path, server.url), { method: 'POST', headers, body });
    expect(response.status).toBe(400);
    expect(await response.text()).toContain('The request nests deeper than 500 levels.');
  });

  it.each([496, 499, 500, 600])('R-28 is the fault of its client: GRPC 1.0, %d levels', async (levels) => {
    const { client, options } = await reach(server.url, ['GRPC', '1.0']);
    const message = {
      messageId: 'm',
      role: 1,
      parts: [],
      contextId: '',
      taskId: '',
      extensions: [],
      referenceTaskIds: [],
    };
    const part = { content: { $case: 'text' as const, value: 'x' }, metadata: undefined, filename: '', mediaType: '' };
    const metadata = JSON.parse(nested(levels));
    const sent = client.sendMessage(
      { tenant: '', message: { ...message, parts: [part], metadata }, configuration: undefined, metadata: undefined },
      options,
    );
    await expect(sent).rejects.toThrow('The message nests deeper than 500 levels.');
  });
});

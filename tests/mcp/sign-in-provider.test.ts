import { afterEach, expect, it } from '@jest/globals';
import { agent, InMemoryStateStore } from 'millrace';
import { mcpTools } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';
import { authorizationServer } from './authorization-server.ts';
import { OwnProvider } from './own-provider.ts';
import { sdkServer } from './sdk-server.ts';

const open: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

it('P-08 a provider of the SDK signs in by itself: no question, and its tokens are used and refreshed', async () => {
  const sdk = await sdkServer({ version: 'v2', way: 'http' });
  const { url } = { url: '', ...sdk.options };
  const server = await authorizationServer(String(url));
  const provider = new OwnProvider();
  const tools = mcpTools({
    servers: { it: { url: server.url, auth: { provider } } },
    reconnect: { initialMs: 1, maxMs: 1 },
  });
  open.push(sdk, server, tools);
  const llm = scriptedLLM([
    { text: 'No tools.' },
    { toolCalls: [{ name: 'it__add', arguments: { a: 1, b: 2 } }] },
    { text: 'Three.' },
    { toolCalls: [{ name: 'it__add', arguments: { a: 2, b: 2 } }] },
    { text: 'Four.' },
  ]);
  const taskStateStore = new InMemoryStateStore();
  const helper = agent({ id: 'helper', name: 'helper', provider: llm, toolProviders: [tools], taskStateStore });

  // Nobody is signed in: the turn runs without the tools, and none of them asks.
  expect(await helper.run('Add.')).toMatchObject({ status: 'completed', text: 'No tools.', questions: [] });
  expect(llm.calls[0]?.tools ?? []).toEqual([]);
  expect(provider.address?.searchParams.get('code_challenge_method')).toBe('S256');

  await provider.finish(server.url, await server.visit(String(provider.address)));
  expect(await helper.run('Add.')).toMatchObject({ status: 'completed', text: 'Three.' });
  server.expire();
  expect(await helper.run('Add.')).toMatchObject({ status: 'completed', text: 'Four.', questions: [] });
  expect(llm.calls[4]?.messages.at(-1)).toMatchObject({ role: 'tool', content: '4' });
  expect(server.asked.filter((path) => path === '/token')).toHaveLength(2);
  llm.assertDone();
});

import { afterEach, describe, expect, it } from '@jest/globals';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { agent, InMemoryArtifactStore, InMemoryStateStore, type LLMProvider } from 'millrace';
import { mcpServer } from 'millrace/mcp';

const open: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

/** Calls the tool that the user names, `<tool> <JSON>`, and answers with its result. */
const obedient: LLMProvider = {
  call: async ({ messages }) => {
    const last = messages.at(-1);
    if (last?.role !== 'user') return { message: { role: 'assistant', content: String(last?.content) } };
    const [, name = '', args = ''] = /^(\S+) (.*)$/s.exec(String(last.content)) ?? [];
    const call = { id: 'c', type: 'function' as const, function: { name, arguments: args } };
    return { message: { role: 'assistant', content: null, toolCalls: [call] } };
  },
};

const keys = { alice: 'the-key-of-alice-is-long', bob: 'the-key-of-bob-is-longer' };

async function served(): Promise<string> {
  const stores = { taskStateStore: new InMemoryStateStore(), artifactStore: new InMemoryArtifactStore() };
  const clerk = agent({ name: 'the clerk', provider: obedient, ...stores });
  const server = mcpServer({ agent: clerk });
  open.push(() => server.close());
  return (await server.listen({ apiKeys: Object.values(keys) })).url;
}

type Call = (name: string, args: object, conversation?: string) => Promise<string>;

async function clientOf(url: string, key: string, mode: 'auto' | 'legacy'): Promise<Call> {
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
  const headers = { authorization: `Bearer ${key}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  open.push(() => client.close());
  return async (name, args, conversation) => {
    const message = `${name} ${JSON.stringify(args)}`;
    const { content } = await client.callTool({
      name: 'the_clerk',
      arguments: { message, ...(conversation !== undefined && { conversation }) },
    });
    return content.map((part) => ('text' in part ? part.text : '')).join('');
  };
}

const idIn = (text: string): string => /"artifactId":"([^"]+)"/.exec(text)?.[1] ?? text;

describe.each(['auto', 'legacy'] as const)('artifacts of a caller of an MCP server, to a client that is %s', (mode) => {
  it.each(['notes', undefined])('are unknown to a caller with another key, in the conversation %s', async (name) => {
    const url = await served();
    const [asAlice, asBob] = [await clientOf(url, keys.alice, mode), await clientOf(url, keys.bob, mode)];
    const alice = (tool: string, args: object) => asAlice(tool, args, name);
    const bob = (tool: string, args: object) => asBob(tool, args, name);
    const artifactId = idIn(await alice('create_artifact', { name: 'pay.md', content: 'It is 1000.' }));
    expect(await bob('read_artifact', { artifactId })).toMatch(/There is no artifact .*known artifacts: none/);
    expect(await bob('update_artifact', { artifactId, content: 'It is 0.' })).toContain('There is no artifact');
    expect(await bob('list_artifacts', {})).toBe('{"artifacts":[]}');
    expect(await alice('read_artifact', { artifactId })).toBe('It is 1000.');
    expect(await alice('update_artifact', { artifactId, content: 'It is 2000.' })).toContain('"version":2');
    expect(await alice('read_artifact', { artifactId })).toBe('It is 2000.');
  });

  it('are known in its other conversations', async () => {
    const url = await served();
    const alice = await clientOf(url, keys.alice, mode);
    const artifactId = idIn(await alice('create_artifact', { name: 'pay.md', content: 'It is 1000.' }, 'one'));
    expect(await alice('read_artifact', { artifactId }, 'two')).toBe('It is 1000.');
    expect(await alice('list_artifacts', {}, 'two')).toBe('{"artifacts":[]}');
  });
});

import { afterEach, expect, it } from '@jest/globals';
import {
  type OAuthClientInformationMixed,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type OAuthTokens,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import { agent, InMemoryStateStore } from 'millrace';
import { mcpTools } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';
import { authorizationServer } from './authorization-server.ts';
import { sdkServer } from './sdk-server.ts';

const open: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

/** A provider of the user's own, which keeps all in memory, and shows where the user has to go. */
class OwnProvider implements OAuthClientProvider {
  readonly redirectUrl = 'http://127.0.0.1:9/callback';
  readonly clientMetadata = { client_name: 'own', redirect_uris: [this.redirectUrl] };
  address: URL | undefined;
  #client: OAuthClientInformationMixed | undefined;
  #tokens: OAuthTokens | undefined;
  #verifier = '';
  #discovery: OAuthDiscoveryState | undefined;

  clientInformation = () => this.#client;
  saveClientInformation = (client: OAuthClientInformationMixed) => {
    this.#client = client;
  };
  tokens = () => this.#tokens;
  saveTokens = (tokens: OAuthTokens) => {
    this.#tokens = tokens;
  };
  saveCodeVerifier = (verifier: string) => {
    this.#verifier = verifier;
  };
  codeVerifier = () => this.#verifier;
  saveDiscoveryState = (discovery: OAuthDiscoveryState) => {
    this.#discovery = discovery;
  };
  discoveryState = () => this.#discovery;
  redirectToAuthorization = (address: URL) => {
    this.address = address;
  };
}

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

  const callback = new URL(await server.visit(String(provider.address)));
  await new StreamableHTTPClientTransport(new URL(server.url), { authProvider: provider }).finishAuth(
    callback.searchParams,
  );
  expect(await helper.run('Add.')).toMatchObject({ status: 'completed', text: 'Three.' });
  server.expire();
  expect(await helper.run('Add.')).toMatchObject({ status: 'completed', text: 'Four.', questions: [] });
  expect(llm.calls[4]?.messages.at(-1)).toMatchObject({ role: 'tool', content: '4' });
  expect(server.asked.filter((path) => path === '/token')).toHaveLength(2);
  llm.assertDone();
});

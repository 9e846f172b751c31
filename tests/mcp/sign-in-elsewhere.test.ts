import { afterEach, expect, it } from '@jest/globals';
import { agent, agentTools, InMemoryStateStore } from 'millrace';
import { type McpTools, mcpTools, memoryAuthStore } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';
import { a2aBench, send } from '../a2a/bench.ts';
import { data, message } from '../a2a/messages.ts';
import { type AuthorizationServer, authorizationServer } from './authorization-server.ts';
import { type SdkServer, sdkServer } from './sdk-server.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

interface Protected {
  readonly sdk: SdkServer;
  readonly server: AuthorizationServer;
  /** Those of another process: only the store of tokens is shared. */
  readonly tools: () => McpTools;
}

async function protectedServer(): Promise<Protected> {
  const sdk = await sdkServer({ version: 'v2', way: 'http' });
  const { url } = { url: '', ...sdk.options };
  const server = await authorizationServer(String(url));
  open.push(sdk, server);
  const auth = { redirectUrl: 'http://127.0.0.1:9/callback', store: memoryAuthStore() };
  const tools = () => {
    const made = mcpTools({ servers: { it: { url: server.url, auth } } });
    open.push(made);
    return made;
  };
  return { sdk, server, tools };
}

function addressIn(asked: unknown): string {
  return /http[^"\\]+\/authorize[^"\\]+/.exec(JSON.stringify(asked))?.[0] ?? '';
}

const signIn = { toolCalls: [{ name: 'it__oauth_sign_in' }] };

it('P-08 signs in before and between the questions of a call, each answer taken by another process', async () => {
  const { sdk, server, tools } = await protectedServer();
  const taskStateStore = new InMemoryStateStore();
  const provider = scriptedLLM([
    signIn,
    { text: 'Signed in.' },
    { toolCalls: [{ name: 'it__ask_twice' }] },
    { text: 'Done.' },
  ]);
  const made = () => agent({ id: 'a', name: 'a', provider, toolProviders: [tools()], taskStateStore });
  const first = made().startTurn('go');
  const callback = await server.visit(addressIn((await first.result()).questions));
  await made()
    .resume(first.taskId, { answers: { '1:0': callback } })
    .result();

  // The tools are remembered from here on.
  await tools().connect();
  server.expire('refresh');
  const turn = made().startTurn('Ask.');
  const kinds: string[] = [];
  let result = await turn.result();
  while (result.questions.length > 0) {
    const [question] = result.questions;
    const { id = '', kind = '', prompt = '' } = question ?? {};
    kinds.push(kind);
    const form = prompt.startsWith('Who') ? { name: 'Ada' } : { colour: 'red' };
    const answer = kind === 'auth' ? await server.visit(addressIn(question)) : form;
    // The token is void again before the answer to the first question is sent.
    if (prompt.startsWith('Who')) server.expire('refresh');
    result = await made()
      .resume(turn.taskId, { answers: { [id]: answer } })
      .result();
  }
  expect(kinds).toEqual(['auth', 'input', 'auth', 'input']);
  expect(provider.calls.at(-1)?.messages.at(-1)).toMatchObject({
    content: '{"name":"Ada","colour":"red","shade":"dark"}',
  });
  expect(sdk.ledger().filter((line) => line.startsWith('ask_twice'))).toHaveLength(3);
});

it('P-08 asks an A2A client to sign in, as auth-required, and takes its answer', async () => {
  const { server, tools } = await protectedServer();
  const store = new InMemoryStateStore();
  const steps = [signIn, { text: 'Signed in.' }];
  const { handler } = a2aBench({ steps, store, agent: { toolProviders: [tools()] } });
  const asked = await send(handler, 'go');
  expect(asked.status).toMatchObject({ state: 8 });
  const callback = await server.visit(addressIn(asked));
  const done = await send(handler, message([data({ answers: { '1:0': callback } })], { taskId: asked.id }));
  expect(done).toMatchObject({ id: asked.id, status: { state: 3 } });
  const code = new URL(callback).searchParams.get('code');
  const told = JSON.stringify([asked, done]);
  for (const secret of server.secrets.filter((each) => each !== code)) expect(told).not.toContain(secret);
});

it('P-08 asks for a sign-in of a sub-agent by the turn above', async () => {
  const { server, tools } = await protectedServer();
  const worker = agent({
    id: 'worker',
    name: 'worker',
    provider: scriptedLLM([signIn, { text: 'Signed in.' }]),
    toolProviders: [tools()],
  });
  const provider = scriptedLLM([
    { toolCalls: [{ name: 'worker', arguments: { message: 'go' } }] },
    { text: 'All done.' },
  ]);
  const taskStateStore = new InMemoryStateStore();
  const boss = agent({ id: 'boss', name: 'boss', provider, toolProviders: [agentTools([worker])], taskStateStore });
  const turn = boss.startTurn('go');
  const asked = await turn.result();
  expect(asked).toMatchObject({ status: 'auth-required', questions: [{ kind: 'auth', child: { agentId: 'worker' } }] });
  const [question] = asked.questions;
  const answers = { [String(question?.id)]: await server.visit(addressIn(question)) };
  expect(await boss.resume(turn.taskId, { answers }).result()).toMatchObject({
    status: 'completed',
    text: 'All done.',
  });
});

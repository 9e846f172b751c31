import { afterEach, expect, it } from '@jest/globals';
import { agent, agentTools, InMemoryStateStore } from 'millrace';
import type { McpTools } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';
import { a2aBench, send } from '../a2a/bench.ts';
import { data, message } from '../a2a/messages.ts';
import { type SdkServer, sdkServer, toolsOf } from './sdk-server.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

async function started(): Promise<{ readonly server: SdkServer; readonly tools: McpTools }> {
  const server = await sdkServer({ version: 'v2', way: 'http' });
  const tools = toolsOf(server);
  open.push(server, tools);
  return { server, tools };
}

function rounds({ ledger }: SdkServer): readonly string[] {
  return ledger().filter((line) => line.startsWith('ask_twice'));
}

const steps = [{ toolCalls: [{ name: 'it__ask_twice' }] }, { text: 'Done.' }];

it('P-03 a question of an MCP server reaches an A2A client without the state, and its answers come back', async () => {
  const { server, tools } = await started();
  const { handler, model } = a2aBench({ steps, store: new InMemoryStateStore(), agent: { toolProviders: [tools] } });
  const first = await send(handler, 'go');
  expect(first.status).toMatchObject({ state: 6 });
  const name = message([data({ answers: { '1:0': { name: 'Ada' } } })], { taskId: first.id });
  const second = await send(handler, name);
  const colour = message([data({ answers: { '1:0.2': { colour: 'red' } } })], { taskId: first.id });
  const done = await send(handler, colour);
  expect(done).toMatchObject({ id: first.id, status: { state: 3 } });
  expect(model.calls[1]?.messages.at(-1)).toMatchObject({ content: '{"name":"Ada","colour":"red","shade":"dark"}' });
  expect(rounds(server)).toHaveLength(3);
  const states = server.ledger().filter((line) => line.startsWith('state '));
  expect(states).toHaveLength(2);
  const told = JSON.stringify([first, second, done]);
  expect(told).toContain('Who are you?');
  for (const state of states) expect(told).not.toContain(state.slice('state '.length));
});

it('a question of an MCP server inside a sub-agent is asked by the turn above, and continues the one call', async () => {
  const { server, tools } = await started();
  const worker = agent({ id: 'worker', name: 'worker', provider: scriptedLLM(steps), toolProviders: [tools] });
  const store = new InMemoryStateStore();
  const provider = scriptedLLM([
    { toolCalls: [{ name: 'worker', arguments: { message: 'go' } }] },
    { text: 'All done.' },
  ]);
  const boss = agent({
    id: 'boss',
    name: 'boss',
    provider,
    toolProviders: [agentTools([worker])],
    taskStateStore: store,
  });
  const turn = boss.startTurn('go');
  const asked = await turn.result();
  expect(asked.questions).toMatchObject([{ id: '1:0', child: { agentId: 'worker' } }]);
  const next = await boss.resume(turn.taskId, { answers: { '1:0': { name: 'Ada' } } }).result();
  const [question] = next.questions;
  const answers = { [String(question?.id)]: { colour: 'red' } };
  const ended = await boss.resume(turn.taskId, { answers }).result();
  expect(ended).toMatchObject({ status: 'completed', text: 'All done.' });
  expect(rounds(server)).toHaveLength(3);
});

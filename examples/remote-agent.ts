import { agent, agentTools, InMemoryStateStore, tool } from 'millrace';
import { a2aServer, apiKeyAuth, remoteAgent } from 'millrace/a2a';
import { scriptedLLM } from 'millrace/testing';

// The server: an agent on an A2A server that requires a key.
const key = crypto.randomUUID();
const refund = tool({
  name: 'refund',
  description: 'Refunds an order.',
  parameters: { type: 'object', properties: { order: { type: 'string' } }, required: ['order'] },
  needsApproval: true,
  execute: ({ order }) => `order ${order} is refunded`,
});
const shop = agent({
  name: 'shop',
  description: 'Helps with orders.',
  provider: scriptedLLM([
    { text: 'Your order 7 has been delivered.' },
    { text: 'I will refund it.', toolCalls: [{ name: 'refund', arguments: { order: '7' } }] },
    { text: ['Order 7 ', 'is refunded.'] },
  ]),
  tools: [refund],
  taskStateStore: new InMemoryStateStore(),
});
const server = await a2aServer({ agent: shop, auth: apiKeyAuth({ keys: [{ id: 'desk', key }] }) });
const { url } = await server.listen({ port: 0 });

// The client: the remote agent is an agent like any other.
const remote = await remoteAgent({ url, auth: { bearer: key }, taskStateStore: new InMemoryStateStore() });
console.log('card:   ', remote.name, '-', remote.options.description);
console.log('run:    ', (await remote.run('Where is order 7?')).text);

// As a tool of an agent: its questions become those of the call.
const desk = agent({
  name: 'desk',
  provider: scriptedLLM([
    { toolCalls: [{ name: 'shop', arguments: { message: 'Refund order 7.' } }] },
    { text: 'The shop has refunded it.' },
  ]),
  toolProviders: [agentTools([remote])],
  taskStateStore: new InMemoryStateStore(),
});
const asked = await desk.run('I want my money back for order 7.', { taskId: 'complaint' });
const [question] = asked.questions;
console.log('asked:  ', asked.status, '-', question?.prompt);

const answers = { [question?.id ?? '']: { approved: true } };
const done = await desk.resume('complaint', { answers }).result();
const result = done.messages.find(({ role }) => role === 'tool');
console.log('result: ', result?.content);
console.log('done:   ', done.text);

await server.close();

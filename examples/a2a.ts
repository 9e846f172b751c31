import type { Message, Part, StreamResponse } from '@a2a-js/sdk';
import { ClientFactory } from '@a2a-js/sdk/client';
import { agent, InMemoryStateStore, tool } from 'millrace';
import { a2aServer, turnExtension } from 'millrace/a2a';
import { scriptedLLM } from 'millrace/testing';

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
    { text: 'I will refund it.', toolCalls: [{ name: 'refund', arguments: { order: '7' } }] },
    { text: ['Order 7 ', 'is refunded.'] },
  ]),
  tools: [refund],
  taskStateStore: new InMemoryStateStore(),
});

const server = await a2aServer({ agent: shop });
const { url } = await server.listen({ port: 0 });

// Any client of A2A. This one is the official one; it knows the server by its card.
const client = await new ClientFactory().createFromUrl(url);

const text = (value: string): Part => ({ ...plain, content: { $case: 'text', value } });
const data = (value: unknown): Part => ({ ...plain, content: { $case: 'data', value } });
const plain = { mediaType: '', filename: '', metadata: undefined };

function message(messageId: string, part: Part, taskId = ''): Message {
  const rest = { contextId: '', metadata: undefined, extensions: [], referenceTaskIds: [] };
  return { messageId, taskId, role: 1, parts: [part], ...rest };
}

const send = (sent: Message): AsyncIterable<StreamResponse> =>
  client.sendMessageStream({ tenant: '', message: sent, configuration: undefined, metadata: undefined });

/** Prints what comes; gives the task's id. */
async function show(stream: AsyncIterable<StreamResponse>): Promise<string> {
  let taskId = '';
  for await (const { payload } of stream) {
    if (payload?.$case === 'task') {
      taskId = payload.value.id;
      console.log('task, state', payload.value.status?.state);
    } else if (payload?.$case === 'statusUpdate') {
      const { status, metadata } = payload.value;
      console.log('state', status?.state, JSON.stringify(metadata?.[turnExtension]));
      for (const { content } of status?.message?.parts ?? []) console.log('   ', JSON.stringify(content?.value));
    } else if (payload?.$case === 'artifactUpdate') {
      const { artifact, append, lastChunk } = payload.value;
      const piece = JSON.stringify(artifact?.parts[0]?.content?.value);
      console.log(artifact?.artifactId, append ? 'continues' : 'begins', lastChunk ? 'and ends' : '', piece);
    }
  }
  return taskId;
}

const taskId = await show(send(message('m-1', text('Please refund order 7.'))));

console.log('the customer service agrees');
await show(send(message('m-2', data({ answers: { '1:0': { approved: true } } }), taskId)));

// The response was lost: sending the same message again starts nothing, and returns the same task.
console.log('m-1 again');
console.log((await show(send(message('m-1', text('Please refund order 7.'))))) === taskId);

await server.close();

import { AgentLoop, agent, InMemoryStateStore, tool } from 'millrace';
import { mcpServer, mcpTools } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';

// An agent of ours, offered to MCP clients. Its tool needs somebody's approval.
const cashier = agent({
  name: 'cashier',
  description: 'Refunds orders.',
  provider: scriptedLLM([
    { toolCalls: [{ name: 'refund', arguments: { order: 'A7' } }] },
    { text: 'Order A7 is refunded.' },
  ]),
  tools: [
    tool({
      name: 'refund',
      description: 'Refunds an order.',
      parameters: { type: 'object', properties: { order: { type: 'string' } }, required: ['order'] },
      needsApproval: true,
      execute: ({ order }) => `refunded ${order}`,
    }),
  ],
});
const served = mcpServer({ agent: cashier });
const { url } = await served.listen();

// The tools of two servers: one that is a process, one over HTTP.
const tools = mcpTools({
  servers: {
    everything: { command: 'npx', args: ['-y', '@modelcontextprotocol/server-everything', 'stdio'], resources: true },
    desk: { url },
  },
});

const config = {
  agentId: 'assistant',
  llmProvider: scriptedLLM([
    {
      toolCalls: [
        { name: 'everything__get-sum', arguments: { a: 19, b: 23 } },
        { name: 'everything__trigger-long-running-operation', arguments: { duration: 0.3, steps: 3 } },
        { name: 'desk__cashier', arguments: { message: 'Refund A7, please.' } },
      ],
    },
    { text: 'Summed up, waited, and refunded.' },
  ]),
  toolProviders: [tools],
  taskStateStore: new InMemoryStateStore(),
};

const turn = new AgentLoop(config).startTurn([{ role: 'user', content: 'Do your round.' }]);
turn.subscribe((event) => {
  if (event.kind === 'internal:tool-progress') console.log('progress', event.toolName, JSON.stringify(event.update));
});

// What the cashier asks its client's user is a question of our turn. The call at the server waits meanwhile.
const { status, questions } = await turn.result();
console.log(status, questions);
const answers = Object.fromEntries(questions.map(({ id }) => [id, { approved: true }]));
const { text, messages } = await AgentLoop.resume(turn.taskId, config, { answers }).result();
for (const message of messages) if (message.role === 'tool') console.log('tool:', message.content);
console.log(text);

// Ends the process of the one server, and leaves the other.
await tools.close();
await served.close();

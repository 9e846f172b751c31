import { AgentLoop, InMemoryStateStore, LocalToolProvider, tool } from 'millrace';
import { scriptedLLM } from 'millrace/testing';
import { z } from 'zod';

const refund = tool({
  name: 'refund',
  description: 'Refunds an order.',
  parameters: z.object({ order: z.string(), cents: z.number().int().positive() }),
  // Small sums go through; above that, somebody has to say yes.
  needsApproval: ({ cents }) => cents > 5_000,
  execute: ({ order, cents }, { idempotencyKey }) => `refunded ${cents} cents of ${order} (key ${idempotencyKey})`,
});

const config = {
  agentId: 'shop',
  llmProvider: scriptedLLM([
    {
      toolCalls: [
        { name: 'refund', arguments: { order: 'A-1', cents: 900 } },
        { name: 'refund', arguments: { order: 'B-2', cents: 12_000 } },
      ],
    },
    { text: 'Both orders are refunded.' },
  ]),
  toolProviders: [new LocalToolProvider([refund])],
  // Any store; with LMDB or Redis the answer may come days later, in another process.
  taskStateStore: new InMemoryStateStore(),
};

const turn = new AgentLoop(config).startTurn([{ role: 'user', content: 'Refund A-1 and B-2.' }], { taskId: 'refunds' });
turn.subscribe((event) => {
  if (event.kind === 'internal:tool-complete') console.log('done ', event.callId, event.content);
  if (event.kind === 'status-update') console.log('state', event.status.state, event.final ? '(final)' : '');
});
const { status, questions } = await turn.result();
for (const { id, prompt, data } of questions) console.log('asks ', id, prompt, data);

if (status === 'input-required') {
  const answers = Object.fromEntries(questions.map(({ id }) => [id, { approved: true }]));
  const resumed = AgentLoop.resume('refunds', config, { answers });
  const { text, messages } = await resumed.result();
  for (const message of messages) if (message.role === 'tool') console.log('tool ', message.content);
  console.log(text);
}

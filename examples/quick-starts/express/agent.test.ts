import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InMemoryStateStore } from 'millrace';
import { scriptedLLM } from 'millrace/testing';
import support from './agent.ts';

test('a refund waits for an approval, and its result is in the answer', async () => {
  const provider = scriptedLLM([
    { toolCalls: [{ name: 'refund_order', arguments: { order_id: 'A-2' } }] },
    ({ messages }) => ({ text: `Done: ${messages.at(-1)?.content}` }),
  ]);
  const agent = support.with({ provider, taskStateStore: new InMemoryStateStore() });

  const asked = await agent.run('Refund order A-2.');
  assert.equal(asked.status, 'input-required');

  const answers = Object.fromEntries(asked.questions.map(({ id }) => [id, { approved: true }]));
  const { text } = await agent.resume(asked.taskId, { answers }).result();
  assert.equal(text, 'Done: Refunded 12000 cents for order A-2.');
  provider.assertDone();
});

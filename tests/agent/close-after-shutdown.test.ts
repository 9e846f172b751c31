import { expect, it } from '@jest/globals';
import { agent, InMemoryStateStore, tool } from 'millrace';
import { scriptedLLM } from 'millrace/testing';

it('R-43 an agent that a listener of its shutdown closes drains its turns, and does not cancel them', async () => {
  const store = new InMemoryStateStore();
  const stopping = new AbortController();
  let closed: Promise<void> | undefined;
  const work = tool({
    name: 'work',
    description: 'Asks the process to stop.',
    parameters: { type: 'object' },
    execute() {
      stopping.abort();
      return 'done';
    },
  });
  const provider = scriptedLLM([{ toolCalls: [{ name: 'work' }] }]);
  const clerk = agent({ id: 'clerk', provider, tools: [work], taskStateStore: store, shutdown: stopping.signal });
  // Before any turn listens to it.
  stopping.signal.addEventListener('abort', () => {
    closed = clerk.close();
  });
  await expect(clerk.startTurn('go', { taskId: 't' }).result()).rejects.toMatchObject({ code: 'SHUTDOWN' });
  await closed;
  expect(await store.describe('t')).toMatchObject({ state: 'working', held: false });
});

import { expect, it } from '@jest/globals';
import { agent, InMemoryStateStore, tool } from 'millrace';
import { scriptedLLM } from 'millrace/testing';

/** A process whose tool runs when it is asked to stop; `atStop` is called by a listener that is older than those of its turns. */
function stoppingClerk(atStop: (clerk: ReturnType<typeof clerkOf>) => void) {
  const store = new InMemoryStateStore();
  const stopping = new AbortController();
  const clerk = clerkOf(store, stopping);
  stopping.signal.addEventListener('abort', () => atStop(clerk));
  return { store, clerk };
}

function clerkOf(store: InMemoryStateStore, stopping: AbortController) {
  const work = tool({
    name: 'work',
    description: 'Asks the process to stop.',
    parameters: { type: 'object' },
    async execute(_, { signal }) {
      stopping.abort();
      // It finishes after the agent was closed.
      await new Promise(setImmediate);
      return signal.aborted ? 'interrupted' : 'done';
    },
  });
  const provider = scriptedLLM([{ toolCalls: [{ name: 'work' }] }]);
  return agent({ id: 'clerk', provider, tools: [work], taskStateStore: store, shutdown: stopping.signal });
}

const released = { state: 'working', held: false };

it('R-43 an agent that a listener of its shutdown closes drains its turns, and does not cancel them', async () => {
  let closed: Promise<void> | undefined;
  const { store, clerk } = stoppingClerk((agent) => {
    closed = agent.close();
  });
  await expect(clerk.startTurn('go', { taskId: 't' }).result()).rejects.toMatchObject({ code: 'SHUTDOWN' });
  await closed;
  expect(await store.describe('t')).toMatchObject(released);
  // Its tool had time to finish.
  const results = (await store.read('t')).filter(({ type }) => type === 'tool.result');
  expect(results).toMatchObject([{ callId: '1:0', content: 'done', success: true }]);
});

it('R-43 a subscriber that leaves while its process shuts down does not cancel the turn', async () => {
  let leave = (): void => {};
  const { store, clerk } = stoppingClerk(() => leave());
  const turn = clerk.startTurn('go', { taskId: 't' });
  const subscription = turn.subscribe({ error: () => {} });
  leave = () => subscription.unsubscribe();
  await expect(turn.settled).rejects.toMatchObject({ code: 'SHUTDOWN' });
  expect(await store.describe('t')).toMatchObject(released);
  await clerk.close();
});

it('R-43 an agent that is closed leaves a turn to the process that runs it', async () => {
  const store = new InMemoryStateStore();
  let finish = (): void => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  let begun = (): void => {};
  const running = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const work = tool({
    name: 'work',
    description: 'Works until the other agent is closed.',
    parameters: { type: 'object' },
    async execute() {
      begun();
      await finished;
      return 'done';
    },
  });
  const clerkWith = (answers: Parameters<typeof scriptedLLM>[0]) =>
    agent({ id: 'clerk', provider: scriptedLLM(answers), tools: [work], taskStateStore: store });
  const owner = clerkWith([{ toolCalls: [{ name: 'work' }] }, { text: 'It is done.' }]);
  const watcher = clerkWith([]);
  const turn = { taskId: 't', contextId: 'c' };
  const result = owner.startTurn('go', turn).result();
  await running;
  const watched = watcher.startTurn('go', turn);
  const shown = new Promise<void>((resolve) => {
    watched.subscribe({ next: ({ kind }) => kind === 'internal:tool-start' && resolve(), error: () => {} });
  });
  await shown;
  await watcher.close();
  await expect(watched.result()).rejects.toMatchObject({ code: 'SHUTDOWN' });
  finish();
  await expect(result).resolves.toMatchObject({ status: 'completed', text: 'It is done.' });
  await owner.close();
});
